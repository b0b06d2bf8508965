-- Poisoned jobs, which wait for a person and are kept without end (`kept_since` is null).

-- name: POISON_COUNTS
-- How many there are of each error, by queue.
select queue, error, pg_catalog.count(*) from consign.job_ended
 where queue = any($1) and kept_since is null
 group by queue, error;

-- name: POISON_FIRST
-- One of each: the index knows only a digest of the error code, the job knows the code.
select e.no
  from unnest($1::int4[], $2::int8[]) u(queue, error)
 cross join lateral (
   select no from consign.job_ended
    where queue = u.queue and error = u.error and kept_since is null limit 1) e;
