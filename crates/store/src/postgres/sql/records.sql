-- Records: one small table for policies, pauses and credentials.

-- name: RECORDS_OF_KINDS
-- The records of some kinds.
select r.kind, r.scope, r.key, r.body
  from pg_catalog.unnest($1::text[]) k(kind)
 cross join lateral (select * from consign.record r where r.kind = k.kind offset 0) r;

-- name: RECORDS_PUT
-- Writes records that are new or have changed.
insert into consign.record (kind, scope, key, body)
select * from unnest($1::text[], $2::text[], $3::text[], $4::bytea[])
on conflict (kind, scope, key) do update set body = excluded.body;

-- name: RECORDS_REMOVE
-- Removes records.
with removed as (select * from unnest($1::text[], $2::text[], $3::text[]) g(kind, scope, key)),
policies as (
    delete from consign.policy p using removed
     where removed.kind = 'policy' and p.job_type = removed.key
)
delete from consign.record r using removed
 where (r.kind, r.scope, r.key) = (removed.kind, removed.scope, removed.key);

-- name: POLICY_PUT
-- What `enqueue` must know of a policy, which itself is a sealed record.
insert into consign.policy (job_type, key_window_ms, max_queued, has_schema)
values ($1, $2, $3, $4)
on conflict (job_type) do update
   set key_window_ms = excluded.key_window_ms, max_queued = excluded.max_queued,
       has_schema = excluded.has_schema;
