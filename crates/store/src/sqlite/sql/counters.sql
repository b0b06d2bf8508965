-- How many jobs each queue has in each status. Commits write small deltas (`DELTA_INSERT` in
-- save.sql); the writer adds them up from time to time.

-- name: COUNTERS
-- The sums of all queues as of the last roll-up.
select queue, body from counter;

-- name: COUNTER
-- The sums of one queue.
select body from counter where queue = ?1;

-- name: DELTAS
-- The changes since the last roll-up.
select commit_no, body from delta order by commit_no;

-- name: COUNTER_PUT
-- Rolls up: the new sums of a queue.
insert or replace into counter (queue, body) values (?1, ?2);

-- name: DELTAS_FORGET
-- The deltas that are in the sums now.
delete from delta where commit_no < ?1;
