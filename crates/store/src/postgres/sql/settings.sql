-- Facts about the store, and its queues: small tables, read as a whole.

-- name: SETTINGS_NOW
-- A number that grows with every queue, policy and pause: a node that knows it knows all of them.
select settings from consign.store_meta;

-- name: SETTINGS_CHANGED
-- A queue is new.
update consign.store_meta set settings = settings + 1;

-- name: SETTINGS_SET
-- A policy or a pause was set. Nodes confirm `set_version` in their rows.
update consign.store_meta set settings = settings + 1, set_version = set_version + 1;

-- name: CREDENTIALS_SET
-- A credential was set, which batches do not depend on.
update consign.store_meta set set_version = set_version + 1;

-- name: SET_VERSION
-- What nodes are to confirm.
select set_version from consign.store_meta;

-- name: QUEUES
-- All queues. A queue is a job type of a tenant.
select no, job_type, tenant from consign.queue;

-- name: QUEUES_INSERT
-- The first job of a type and tenant makes the queue. Another node may have made it meanwhile.
insert into consign.queue (job_type, tenant)
select * from unnest($1::text[], $2::text[]) order by 1, 2
on conflict do nothing;
