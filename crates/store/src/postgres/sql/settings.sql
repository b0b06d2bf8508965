-- Facts about the store, queues, policies and pauses: small tables, read as a whole.

-- name: SETTINGS_NOW
-- A number that grows with every queue, policy and pause: a node that knows it knows all of them.
select settings from consign.house;

-- name: SETTINGS_CHANGED
-- A queue is new.
update consign.house set settings = settings + 1;

-- name: SETTINGS_SET
-- A policy or a pause was set. Nodes confirm `set_version` in their rows.
update consign.house set settings = settings + 1, set_version = set_version + 1;

-- name: CREDENTIALS_SET
-- A credential was set, which batches do not depend on.
update consign.house set set_version = set_version + 1;

-- name: SET_VERSION
-- What nodes are to confirm.
select set_version from consign.house;

-- name: QUEUES
-- All queues. A queue is a job type of a tenant.
select no, job_type, tenant from consign.queue;

-- name: QUEUES_INSERT
-- The first job of a type and tenant makes the queue. Another node may have made it meanwhile.
insert into consign.queue (job_type, tenant)
select * from unnest($1::text[], $2::text[]) order by 1, 2
on conflict do nothing;

-- name: POLICIES
-- What is set for job types.
select job_type, body from consign.policy;

-- name: POLICY_PUT
-- Sets the policy of a job type. The columns beside the body are what `enqueue` must know of it.
insert into consign.policy (job_type, body, key_window_ms, max_queued, has_schema)
values ($1, $2, $3, $4, $5)
on conflict (job_type) do update
   set body = excluded.body, key_window_ms = excluded.key_window_ms,
       max_queued = excluded.max_queued, has_schema = excluded.has_schema;

-- name: POLICIES_UNTOLD
-- Policies from before there was `enqueue`, whose columns are empty.
select job_type from consign.policy where key_window_ms is null;

-- name: PAUSES
-- What is paused.
select job_type, scope from consign.pause;

-- name: PAUSE_PUT
-- Pauses a job type in a scope.
insert into consign.pause (job_type, scope) values ($1, $2) on conflict do nothing;

-- name: PAUSE_LIFT
-- Resumes it. The scope of all tenants lifts the pause of each.
delete from consign.pause where job_type = $1 and ($2 = '*' or scope = $2);
