-- Facts about the store, and its queues: small tables, read as a whole.

-- name: EPOCH
-- How often the store was restored. A lease of an earlier epoch is void.
select epoch from consign.store_meta;

-- name: BATCH_SETTINGS_VERSION
-- Grows with every queue, policy and pause. A cache that was loaded at this version has all of
-- them.
select batch_settings_version from consign.store_meta;

-- name: QUEUE_ADDED
-- A queue was made.
update consign.store_meta set batch_settings_version = batch_settings_version + 1;

-- name: BATCH_RECORD_SET
-- A policy or a pause was set. Nodes confirm `record_version` in their rows.
update consign.store_meta
   set batch_settings_version = batch_settings_version + 1, record_version = record_version + 1;

-- name: CREDENTIAL_SET
-- A credential was set, which batches do not depend on.
update consign.store_meta set record_version = record_version + 1;

-- name: RECORDS_LOCK
-- A record is set that nodes do not keep in memory. Two transactions that read its version must
-- still come one after the other.
select record_version from consign.store_meta for no key update;

-- name: RECORD_VERSION
-- The version that nodes confirm.
select record_version from consign.store_meta;

-- name: QUEUES
-- All queues. A queue is a job type of a tenant.
select no, job_type, tenant from consign.queue;

-- name: QUEUES_INSERT
-- The first job of a type and tenant makes the queue. Another node may have made it meanwhile.
insert into consign.queue (job_type, tenant)
select * from unnest($1::text[], $2::text[]) order by 1, 2
on conflict do nothing;
