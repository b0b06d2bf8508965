-- The nodes that share the store, and which of them leads.

-- name: STARTUP_LOCK
-- Makes nodes that start at once take turns, so that only the first one makes what is missing. It
-- locks a row and takes no advisory lock: any role that may connect can take those.
select name from consign.lock where name = 'startup' for update;

-- name: EPOCH_RAISE
-- After a restore no lease from before is believed, and no node works with old settings.
update consign.store_meta set epoch = epoch + 1, batch_settings_version = batch_settings_version + 1;

-- name: LEADER_LOCK
-- Who leads, for the node that may take the lead.
select node, fence, leads_until from consign.leader for update;

-- name: LEADER_READ
-- Who leads, for a transaction that is valid only while that does not change.
select node, fence, leads_until from consign.leader for share;

-- name: LEADER_PUT
-- Takes the lead, keeps it or gives it up.
update consign.leader set node = $1, fence = $2, leads_until = $3;

-- name: NODE_PUT
-- A node's heartbeat. The version of the settings that it confirmed never goes back.
insert into consign.node as n
       (id, host, pid, address, version, started_at, draining, seen_at, confirmed_version)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
on conflict (id) do update
   set address = excluded.address, version = excluded.version, started_at = excluded.started_at,
       draining = excluded.draining, seen_at = excluded.seen_at,
       confirmed_version = greatest(n.confirmed_version, excluded.confirmed_version);

-- name: NODES
-- All nodes, oldest first.
select id, host, pid, address, version, started_at, draining, seen_at, confirmed_version
  from consign.node order by started_at, id;

-- name: NODES_DROP
-- Nodes without a heartbeat for long.
delete from consign.node where seen_at <= $1;
