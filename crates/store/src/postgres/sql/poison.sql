-- Poisoned jobs, which wait for a person and are kept without end (`kept_since` is null).

-- name: POISON_COUNTS
-- How many poisoned jobs each error code has, by queue.
select queue, error, pg_catalog.count(*) from consign.job_ended
 where queue = any($1) and kept_since is null
 group by queue, error;

-- name: POISON_FIRST
-- One job for each error code: the index has only a digest of the code, the job has the code.
select e.no
  from unnest($1::int4[], $2::int8[]) u(queue, error)
 cross join lateral (
   select no from consign.job_ended
    where queue = u.queue and error = u.error and kept_since is null limit 1) e;
