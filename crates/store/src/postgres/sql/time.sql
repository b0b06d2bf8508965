-- The database's clock, and what a transaction must know before it decides anything.

-- name: CLOCK
-- Asked when the locks are held, so that no decision is older than the lock it relies on. $1 says
-- whether the transaction writes: only a writing one needs a number, by which its end is asked for.
select consign.now_ms(), h.epoch, h.settings, pg_catalog.nextval('consign.place'),
       case when $1::bool then pg_catalog.pg_current_xact_id()
            else pg_catalog.pg_current_xact_id_if_assigned() end,
       pg_catalog.pg_postmaster_start_time()
  from consign.store_meta h;

-- name: PLACES
-- More outbox positions. They need not be adjacent: each stands for a block of numbers.
select pg_catalog.nextval('consign.place') from pg_catalog.generate_series(1, $1::int4);

-- name: NOW
-- The database's clock alone.
select consign.now_ms();

-- name: XACT_STATUS
-- How a transaction ended whose commit got no answer. A server that crashed reuses the numbers of
-- transactions that never reached its disk. After a restart "committed" may be about another
-- transaction, and only "aborted" can be believed.
select status from (select pg_catalog.pg_xact_status($1::xid8) as status) s
 where status = 'aborted' or $2::timestamptz = pg_catalog.pg_postmaster_start_time();

-- name: HEARD
-- Writes that workers could reach the store until now. Skipped if another node is writing the same.
with free as (
  select one from consign.liveness where heard_until < $1 for update skip locked)
update consign.liveness p set heard_until = $1 from free where p.one = free.one;

-- name: PULSE_LOCK
-- Until when workers could reach the store, for the one node that extends leases by an outage.
select heard_until from consign.liveness for update;

-- name: PULSE_PUT
-- Sets that time.
update consign.liveness set heard_until = $1;
