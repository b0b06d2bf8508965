-- How many jobs wait in a queue, how many before a given one, and how old the first is. Each count
-- has a limit: an answer of "more than that" must not cost a walk over a million rows.

-- name: NOT_DUE_COUNT
-- Jobs that wait for their time. Most jobs that wait are due, so the reader counts these and
-- subtracts them from the queue's counter.
select count(*) from (
  select 1 from job where queue = ?1 and rank = ?2 and run_at > ?3 limit ?4);

-- name: DUE_COUNT
-- Jobs that are due and have not expired, for a queue in which too many are not due.
select count(*) from (
  select 1 from job
   where queue = ?1 and rank = ?2 and run_at <= ?3 and (expires_at is null or expires_at > ?3)
   limit ?4);

-- name: DUE_FIRST
-- Since when the first of them is due.
select run_at from job
 where queue = ?1 and rank = ?2 and run_at <= ?3 and (expires_at is null or expires_at > ?3)
 order by run_at limit 1;

-- name: DUE_EXPIRED
-- Jobs that have expired and are not yet swept, per queue: they are subtracted from the due jobs.
-- Without the plus, SQLite would walk all waiting jobs, because their index is in the order of
-- queues.
select queue, count(*) from job where expires_at <= ?1 and +run_at <= ?1 group by +queue;

-- name: DUE_BEFORE
-- Jobs of a priority that are due earlier than a given job.
select count(*) from (
  select 1 from job
   where queue = ?1 and rank = ?2 and run_at < ?3 and (expires_at is null or expires_at > ?4)
   limit ?5);

-- name: DUE_BESIDE
-- Jobs that are due in the same millisecond and were submitted before it.
select count(*) from (
  select 1 from job
   where queue = ?1 and rank = ?2 and run_at = ?3 and no < ?4
     and (expires_at is null or expires_at > ?5)
   limit ?6);
