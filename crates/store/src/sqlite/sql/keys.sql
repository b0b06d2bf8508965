-- The keys by which a repeated submit finds its job.

-- name: KEY
-- Which job has this key.
select no from key where queue = ?1 and name = ?2;

-- name: KEY_TAKE
-- Gives a key to a job. Where the window of an earlier job is over, the new job replaces it.
insert or replace into key (queue, name, no) values (?1, ?2, ?3);

-- name: KEY_ENDED
-- From when on the window of a key counts: its job has ended.
update key set ended_at = ?4 where queue = ?1 and name = ?2 and no = ?3;

-- name: KEY_DROP
-- Frees a key, if it still is this job's.
delete from key where queue = ?1 and name = ?2 and no = ?3;

-- name: KEYS_OLD
-- Keys whose window is over, for pruning.
select name, no from key where queue = ?1 and ended_at <= ?2 limit ?3;
