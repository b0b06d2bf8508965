-- Poisoned jobs, which wait for a person and are kept without limit (`kept_since` is null).

-- name: POISON_COUNTS
-- How many there are of each error, in one queue.
select error, count(*) from job_ended where queue = ?1 and kept_since is null group by error;

-- name: POISON_FIRST
-- One of them: the index knows only a digest of the error code, the job knows the code.
select no from job_ended where queue = ?1 and error = ?2 and kept_since is null limit 1;
