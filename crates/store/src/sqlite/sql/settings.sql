-- Facts about the store and its queues: small tables, read as a whole when the store is opened.

-- name: STORE_META
-- The one row about the store itself.
select body from store_meta;

-- name: STORE_META_PUT
-- Overwrites that row.
update store_meta set body = ?1;

-- name: QUEUES
-- All queues. A queue is a job type of a tenant.
select no, job_type, tenant, body from queue;

-- name: QUEUES_OF
-- Those of one tenant, so that its reads do not cost what all tenants have.
select no, job_type, tenant, body from queue where tenant = ?1;

-- name: QUEUES_OF_TYPE
-- Those of one job type.
select no, job_type, tenant, body from queue where job_type = ?1;

-- name: QUEUE_INSERT
-- The first job of a type and tenant makes the queue.
insert into queue (no, job_type, tenant, body) values (?1, ?2, ?3, ?4);
