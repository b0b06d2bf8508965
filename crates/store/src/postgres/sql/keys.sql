-- The keys by which a repeated submit finds its job. A key's row is its lock, too, and rows are
-- taken in the order of queue and name.

-- name: KEYS_TAKE
-- Takes keys that are free, and locks those that are not without writing them.
insert into consign.key as k (queue, name, id)
select * from unnest($1::int4[], $2::text[], $3::uuid[]) order by 1, 2
on conflict (queue, name) do update set id = k.id where false
returning queue, name;

-- name: KEY_HOLDERS
-- Which job has each of these keys.
select k.queue, k.name, k.id
  from unnest($1::int4[], $2::text[]) u(queue, name)
 cross join lateral (
   select * from consign.key where queue = u.queue and name = u.name offset 0) k;

-- name: KEYS_LOCK
-- Locks keys that the pruning may drop.
select k.queue, k.name, k.id
  from (select * from unnest($1::int4[], $2::text[]) order by 1, 2) u(queue, name)
 cross join lateral (
   select * from consign.key where queue = u.queue and name = u.name for update) k;

-- name: KEYS_SET
-- Gives locked keys to other jobs.
update consign.key k set id = u.id
  from unnest($1::int4[], $2::text[], $3::uuid[]) u(queue, name, id)
 cross join lateral (
   select ctid from consign.key where queue = u.queue and name = u.name offset 0) located
 where k.ctid = located.ctid;

-- name: KEYS_DROP
-- Frees locked keys.
delete from consign.key k
 using unnest($1::int4[], $2::text[]) u(queue, name)
 cross join lateral (
   select ctid from consign.key where queue = u.queue and name = u.name offset 0) located
 where k.ctid = located.ctid;

-- name: KEY_EXPIRIES_INSERT
-- From when on the windows of keys count. Rows are only added to this table, so that the end of a
-- job does not wait for a transaction that has locked the job's key.
insert into consign.key_expiry (queue, ended_at, name, id)
select * from unnest($1::int4[], $2::int8[], $3::text[], $4::uuid[]);

-- name: KEYS_OLD
-- Keys whose window is over, for the pruning.
select ctid::text, name, id from consign.key_expiry
 where queue = $1 and ended_at <= $2
 order by ended_at limit $3 for update skip locked;

-- name: KEYS_OLD_DROP
-- The rows that the statement before found and locked.
delete from consign.key_expiry where ctid = any($1::text[]::tid[]);
