-- Finds due jobs, and remembers what claims were given. A claim's row is its lock, too.

-- name: CLAIMS_HELD
-- Which jobs these claims were given.
select digest, jobs from consign.claim where digest = any($1);

-- name: CLAIMS_LOCK
-- Locks claims in the order they are named in, and makes the rows first where there are none. Gives
-- back the claims that were given nothing before.
insert into consign.claim as k (digest, at)
select d, (select consign.now_ms()) from pg_catalog.unnest($1::int8[]) d
on conflict (digest) do update set at = excluded.at where k.jobs = ''
returning digest;

-- name: CLAIMS_GIVE
-- Writes what claims got into the rows by which they are locked. A row from an earlier claim of the
-- same name is kept from now on. The time of a new row stays as it is, so that PostgreSQL touches
-- no index.
update consign.claim k
   set jobs = u.jobs, at = case when k.at < n.now - 60000 then n.now else k.at end
  from (select consign.now_ms() as now offset 0) n
 cross join unnest($1::int8[], $2::bytea[]) u(digest, jobs)
 cross join lateral (select ctid from consign.claim where digest = u.digest offset 0) held
 where k.ctid = held.ctid;

-- name: CLAIMS_OLD
-- Drops claims that no worker repeats any more.
delete from consign.claim where digest = any(array(
  select digest from consign.claim where at <= $1 order by at limit $2 for update skip locked));

-- name: READY
-- The first due jobs of each queue, the highest priority first. Each queue and priority has a time
-- ($4) below which no job was left at the last scan.
--
-- First of all it locks the claims that it is for ($7, as in `CLAIMS_LOCK`), so that a repeated
-- claim finds what was given or is about to be.
--
-- The last row is of another kind. Where jobs have their number, queue and time, it has an outbox
-- position, the epoch and the time that the statement used. Then come the transaction, the
-- settings, the start of the server, and how many of the claims have got nothing so far. A job that
-- is found may have been announced after this transaction began. It is locked now, so a position
-- taken after the lock is behind its events. And the time is not earlier than any event of a found
-- job: what is due was ready before.
with c as (
  insert into consign.claim as k (digest, at)
  select d, (select consign.now_ms()) from pg_catalog.unnest($7::int8[]) d
  on conflict (digest) do update set at = excluded.at where k.jobs = ''
  returning digest),
l as materialized (select pg_catalog.count(*) as held from c),
t as materialized (
  select case when l.held >= 0 then coalesce($5, consign.now_ms()) end as now from l)
select q.ord, d.no, d.body, h.id, h.queue, h.envelope, h.payload, d.rank, d.run_at,
       null::xid8, null::int8, null::timestamptz, null::int8
  from unnest($1::int4[], $2::int4[]) with ordinality q(queue, wanted, ord)
 cross join lateral (
   select j.no, j.body, j.run_at, r.rank
     from pg_catalog.unnest($3::int2[]) r(rank)
    cross join lateral (
      select no, body, run_at from consign.job
       where queue = q.queue and rank = r.rank
         and run_at >= ($4::int8[])[(q.ord - 1) * $6::int8 + r.rank + 1]
         and run_at <= (select now from t)
         and (expires_at is null or expires_at > (select now from t))
       order by run_at, no limit q.wanted for update skip locked) j
    limit q.wanted) d
 cross join lateral (select * from consign.submission where no = d.no offset 0) h
union all
select 0, pg_catalog.nextval('consign.place'), null, null, store_meta.epoch, null, null, null,
       (select now from t), pg_catalog.pg_current_xact_id_if_assigned(), store_meta.settings,
       pg_catalog.pg_postmaster_start_time(), (select held from l)
  from consign.store_meta;

-- name: READY_NEXT
-- When the next job of these queues and priorities will be due.
select pg_catalog.min((
         select run_at from consign.job
          where queue = q.no and rank = r.rank and run_at > $3
          order by run_at limit 1))
  from pg_catalog.unnest($1::int4[]) q(no), pg_catalog.unnest($2::int2[]) r(rank);

-- name: RUNNING
-- All running jobs, the first to lose its lease first.
select h.id
  from consign.job j
 cross join lateral (select id from consign.submission where no = j.no offset 0) h
 where j.lease_until > 0
 order by j.lease_until;
