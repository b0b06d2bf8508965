-- Finds due jobs, and which jobs claims hold.

-- name: READY
-- The first due jobs of one queue and priority, in the order of the index `job_ready`.
select no from job
 where queue = ?1 and rank = ?2 and run_at <= ?3 and (expires_at is null or expires_at > ?3)
 order by run_at, no limit ?4;

-- name: READY_NEXT
-- When the next job of this queue and priority will be due.
select min(run_at) from job where queue = ?1 and rank = ?2 and run_at > ?3;

-- name: READY_RANK
-- The next priority of which jobs wait. The walk from priority to priority skips the empty ones.
select min(rank) from job where queue = ?1 and rank > ?2 and run_at is not null;

-- name: JOBS_TO_START
-- All that a claim needs of jobs that wait. Neighbours are read together.
select h.no, h.envelope, j.body, null, j.queue, coalesce(h.corrected_payload, h.payload)
  from job j join submission h on h.no = j.no
 where j.no between ?1 and ?2;

-- name: CLAIMED_JOBS
-- Which jobs each claim holds. The writer reads this once and keeps it in memory: a second
-- index would cost more than all its look-ups.
select claim, no from job where lease_until is not null;

-- name: RUNNING_JOBS
-- All running jobs, the first to lose its lease first.
select no from job where lease_until is not null order by lease_until;
