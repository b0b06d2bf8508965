-- Finds due jobs, and stores which jobs each claim got. A claim's row is its lock, too.

-- name: CLAIM_RESULTS
-- Which jobs these claims got.
select digest, jobs from consign.claim where digest = any($1);

-- name: CLAIMS_LOCK
-- Locks claims in the order of the parameter, and first makes the rows that are missing. Returns
-- the claims that have got nothing before.
insert into consign.claim as k (digest, claimed_at)
select d, (select consign.now_ms()) from pg_catalog.unnest($1::int8[]) d
on conflict (digest) do update set claimed_at = excluded.claimed_at where k.jobs = ''
returning digest;

-- name: CLAIM_RESULTS_PUT
-- Writes what claims got into the rows by which they are locked. A row from an earlier claim of the
-- same name is kept from now on. The time of a new row stays as it is, so that PostgreSQL touches
-- no index.
update consign.claim k
   set jobs = u.jobs,
       claimed_at = case when k.claimed_at < n.now - 60000 then n.now else k.claimed_at end
  from (select consign.now_ms() as now offset 0) n
 cross join unnest($1::int8[], $2::bytea[]) u(digest, jobs)
 cross join lateral (select ctid from consign.claim where digest = u.digest offset 0) located
 where k.ctid = located.ctid;

-- name: CLAIMS_OLD
-- Drops claims that no worker repeats any more.
delete from consign.claim where digest = any(array(
  select digest from consign.claim where claimed_at <= $1 order by claimed_at limit $2 for update skip locked));

-- name: DUE_LOCK
-- The first due jobs of each queue, the highest priority first. Each queue and priority has a time
-- ($4) below which no job was left at the last scan.
--
-- First it locks the claims that it serves ($7, as in `CLAIMS_LOCK`), so that a repetition of such
-- a claim waits and then finds the jobs that the claim got.
--
-- The last row is the clock reading. Where jobs have their number, queue and time, it has an outbox
-- position, the epoch and the time that the statement used. Then come the transaction, the version
-- of the batch settings, the start of the server, and how many of the claims have got nothing so
-- far. A job that is found may have had an event after this transaction began. It is locked now, so
-- a position taken after the lock is behind its events. And the time is not earlier than any event
-- of a found job: a due job was queued before.
with claims as (
  insert into consign.claim as k (digest, claimed_at)
  select d, (select consign.now_ms()) from pg_catalog.unnest($7::int8[]) d
  on conflict (digest) do update set claimed_at = excluded.claimed_at where k.jobs = ''
  returning digest),
own_claims as materialized (select pg_catalog.count(*) as new_claims from claims),
clock as materialized (
  select case when new_claims >= 0 then coalesce($5, consign.now_ms()) end as now from own_claims)
select q.ord, d.no, d.body, h.id, h.queue, h.envelope,
       coalesce(h.corrected_payload, h.payload), d.rank, d.run_at,
       null::xid8, null::int8, null::timestamptz, null::int8
  from unnest($1::int4[], $2::int4[]) with ordinality q(queue, jobs_max, ord)
 cross join lateral (
   select j.no, j.body, j.run_at, r.rank
     from pg_catalog.unnest($3::int2[]) r(rank)
    cross join lateral (
      select no, body, run_at from consign.job
       where queue = q.queue and rank = r.rank
         and run_at >= ($4::int8[])[(q.ord - 1) * $6::int8 + r.rank + 1]
         and run_at <= (select now from clock)
         and (expires_at is null or expires_at > (select now from clock))
       order by run_at, no limit q.jobs_max for update skip locked) j
    limit q.jobs_max) d
 cross join lateral (select * from consign.submission where no = d.no offset 0) h
union all
select 0, pg_catalog.nextval('consign.event_seq'), null, null, store_meta.epoch, null, null, null,
       (select now from clock), pg_catalog.pg_current_xact_id_if_assigned(),
       store_meta.batch_settings_version, pg_catalog.pg_postmaster_start_time(), (select new_claims from own_claims)
  from consign.store_meta;

-- name: DUE_NEXT
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
