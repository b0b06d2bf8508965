-- Reads jobs and what belongs to them. Values come as arrays, and tables are asked by
-- `= any(array)` or by a lateral look-up from `unnest`, never joined as equals: where statistics
-- were taken of a moment in which all jobs had ended, the planner would walk the table instead.
-- There is no rule in here on purpose.

-- name: JOBS_LIVE
-- Locks live jobs in the order of their numbers, so that no two transactions wait for each other.
-- The rows of `submission` are found first and sorted then: in one step, PostgreSQL may walk an
-- index by number to spare the sorting.
select h.id, h.no, h.queue, h.envelope, j.body
  from (select * from (
          select id, no, queue, envelope from consign.submission where id = any($1) offset 0) h
        order by no) h
 cross join lateral (select body from consign.job where no = h.no for update) j;

-- name: JOBS_ENDED
-- The same of ended jobs.
select h.id, h.no, h.queue, h.envelope, e.body
  from (select * from (
          select id, no, queue, envelope from consign.submission where id = any($1) offset 0) h
        order by no) h
 cross join lateral (select body from consign.job_ended where no = h.no for update) e;

-- name: JOBS_READ
-- Jobs without locks. A job is live or ended. One statement asks for both: between two, it could
-- move.
select id, no, queue, envelope,
       coalesce((select body from consign.job j where j.no = h.no),
                (select body from consign.job_ended e where e.no = h.no))
  from consign.submission h where id = any($1);

-- name: JOBS_BY_NO
-- The same by the jobs' numbers, as indexes name them.
select id, no, queue, envelope,
       coalesce((select body from consign.job j where j.no = h.no),
                (select body from consign.job_ended e where e.no = h.no))
  from consign.submission h where no = any($1);

-- name: ENVELOPES
-- What was submitted, without the state. It has the keys that a batch must lock.
select id, no, queue, envelope from consign.submission where id = any($1);

-- name: PAYLOAD
-- The payload, which is read only where it is needed: it may be large.
select coalesce(corrected_payload, payload) from consign.submission where no = $1;

-- name: HISTORY
-- What happened to jobs after their entry `seq`, oldest first.
select no, seq, event_seq, body from consign.history
 where no = any($1) and seq > $2
 order by no, seq;

-- name: STEPS
-- What workers memoised under these names.
select s.no, s.name, s.body
  from unnest($1::int8[], $2::text[]) u(no, name)
 cross join lateral (
   select * from consign.step where no = u.no and name = u.name offset 0) s;

-- name: STEPS_COUNT
-- How many steps each job has memoised, for the limit on them.
select u.no, (select pg_catalog.count(*) from consign.step s where s.no = u.no)
  from pg_catalog.unnest($1::int8[]) u(no);

-- name: PARENTS_OF_LIVE
-- Which of these jobs have a child that has not ended.
select p.no
  from unnest($1::int8[], $2::int8[]) p(no, awaits)
 cross join lateral (select from consign.job where child_of = p.awaits limit 1) child;

-- name: LIVE_CHILDREN
-- How many children of a job have not ended, up to a limit.
select pg_catalog.count(*) from (
  select from consign.job where child_of = $1 limit $2) child;
