-- Workers that were seen lately. Their rows are locks, too, and are taken in the order of scope and
-- name.

-- name: WORKERS
-- All of them: the table is small.
select scope, name, body from consign.worker;

-- name: WORKERS_OF
-- Those of some scopes.
select scope, name, body from consign.worker where scope = any($1);

-- name: WORKERS_PUT
-- What workers last reported of themselves. Another node may have seen them later.
insert into consign.worker as w (scope, name, seen_at, body)
select * from unnest($1::text[], $2::text[], $3::int8[], $4::bytea[]) order by 1, 2
on conflict (scope, name) do update set seen_at = excluded.seen_at, body = excluded.body
 where w.seen_at <= excluded.seen_at;

-- name: WORKERS_LEAVE
-- Workers that signed off, if they have rows.
update consign.worker w set seen_at = u.seen_at, body = u.body
  from (select * from unnest($1::text[], $2::text[], $3::int8[], $4::bytea[]) order by 1, 2)
       u(scope, name, seen_at, body)
 cross join lateral (
   select ctid from consign.worker
    where scope = u.scope and name = u.name and seen_at <= u.seen_at for update) located
 where w.ctid = located.ctid;

-- name: WORKERS_DROP
-- Forgets workers.
delete from consign.worker w
 using unnest($1::text[], $2::text[]) u(scope, name)
 where w.scope = u.scope and w.name = u.name;

-- name: LEASES
-- All running jobs, from which the leases of each worker are counted.
select h.id, h.no, h.queue, h.envelope, j.body
  from consign.job j
 cross join lateral (select * from consign.submission where no = j.no offset 0) h
 where j.lease_until > 0
 order by j.lease_until;
