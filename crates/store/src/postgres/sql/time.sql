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
-- More places for events. They need not be neighbours: each stands for a block of numbers.
select pg_catalog.nextval('consign.place') from pg_catalog.generate_series(1, $1::int4);

-- name: NOW
-- The database's clock alone.
select consign.now_ms();

-- name: XACT_STATUS
-- How a transaction ended whose commit was not answered. A server that crashed gives numbers of
-- transactions that never reached its disk to others. After a restart "committed" may be said of
-- another transaction, and only "aborted" can be believed.
select status from (select pg_catalog.pg_xact_status($1::xid8) as status) s
 where status = 'aborted' or $2::timestamptz = pg_catalog.pg_postmaster_start_time();

-- name: HEARD
-- Notes that workers could be heard until now. Skipped where another node is writing the same.
with free as (
  select one from consign.liveness where heard_until < $1 for update skip locked)
update consign.liveness p set heard_until = $1 from free where p.one = free.one;

-- name: PULSE_LOCK
-- Until when workers could be heard, for the one node that makes up for a silence.
select heard_until from consign.liveness for update;

-- name: PULSE_PUT
-- Writes it.
update consign.liveness set heard_until = $1;
