-- Workers that were seen recently.

-- name: WORKERS
-- All of them: the table is small.
select scope, name, body from worker;

-- name: WORKER_PUT
-- The latest facts about a worker.
insert or replace into worker (scope, name, seen_at, body) values (?1, ?2, ?3, ?4);

-- name: WORKER_DROP
-- Forgets a worker.
delete from worker where scope = ?1 and name = ?2;
