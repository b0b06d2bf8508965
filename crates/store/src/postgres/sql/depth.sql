-- How many jobs wait in a queue, how many before a given one, and how old the first is. Each count
-- has a limit: an answer of "more than that" must not cost a walk over a million rows.

-- name: DEPTHS
-- Of each queue and priority: how many jobs wait for their time, and since when the first due one
-- is due. Most jobs that wait are due, so the reader counts the others and subtracts them from the
-- queue's counter.
select q.no, r.rank,
       (select pg_catalog.count(*) from (
          select 1 from consign.job
           where queue = q.no and rank = r.rank and run_at > $3 limit $4) later),
       (select run_at from consign.job
         where queue = q.no and rank = r.rank and run_at <= $3
           and (expires_at is null or expires_at > $3)
         order by run_at limit 1)
  from pg_catalog.unnest($1::int4[]) q(no), pg_catalog.unnest($2::int2[]) r(rank);

-- name: DUE_COUNT
-- Jobs that are due and have not expired, for a queue in which too many are not due.
select pg_catalog.count(*) from (
  select 1 from consign.job
   where queue = $1 and rank = $2 and run_at <= $3 and (expires_at is null or expires_at > $3)
   limit $4) due;

-- name: DUE_EXPIRED
-- Jobs that have expired and are not yet swept, per queue: they are subtracted from what is due.
-- The `offset 0` keeps PostgreSQL from walking all that waits.
select queue, pg_catalog.count(*)
  from (select queue, run_at from consign.job where expires_at <= $1 offset 0) late
 where run_at <= $1
 group by queue;

-- name: DUE_BEFORE
-- Jobs of a priority that are due before a given job.
select pg_catalog.count(*) from (
  select 1 from consign.job
   where queue = $1 and rank = $2 and (run_at, no) < ($3, $4) and run_at <= $5
     and (expires_at is null or expires_at > $5)
   limit $6) due;
