-- The database's clock, and what a transaction must know before it decides anything.

-- name: CLOCK
-- Runs when the transaction has its locks, so that no decision is older than the lock it relies on.
-- $1 says whether the transaction writes. Only then does it need a number, by which the node asks
-- for the outcome of a commit without an answer.
select consign.now_ms(), h.epoch, h.batch_settings_version, pg_catalog.nextval('consign.event_seq'),
       case when $1::bool then pg_catalog.pg_current_xact_id()
            else pg_catalog.pg_current_xact_id_if_assigned() end,
       pg_catalog.pg_postmaster_start_time()
  from consign.store_meta h;

-- name: EVENT_SEQS
-- More outbox positions. They need not be adjacent: each stands for a block of numbers.
select pg_catalog.nextval('consign.event_seq') from pg_catalog.generate_series(1, $1::int4);

-- name: NOW
-- The database's clock alone.
select consign.now_ms();

-- name: XACT_STATUS
-- How a transaction ended whose commit got no answer. A server that crashed reuses the numbers of
-- transactions that never reached its disk. After a restart "committed" may be about another
-- transaction, and only "aborted" can be believed.
select status from (select pg_catalog.pg_xact_status($1::xid8) as status) s
 where status = 'aborted' or $2::timestamptz = pg_catalog.pg_postmaster_start_time();

-- name: LIVENESS_TOUCH
-- Writes that workers could reach the store until now, unless another node is writing the same.
with free as (
  select singleton from consign.liveness where reachable_until < $1 for update skip locked)
update consign.liveness p set reachable_until = $1 from free where p.singleton = free.singleton;

-- name: LIVENESS_LOCK
-- Until when workers could reach the store, for the one node that extends leases by an outage.
select reachable_until from consign.liveness for update;

-- name: LIVENESS_PUT
-- Sets that time under the lock.
update consign.liveness set reachable_until = $1;
