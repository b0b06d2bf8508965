-- The tables that all nodes share. A released migration never changes.
--
-- `consign` stands for the schema that the address names. `no` is a job's number: the millisecond
-- of its creation and a count, so it is ordered by time, never changes, and is the key that tables
-- share. A `body` is a sealed row, as in the embedded store. The columns beside it are derived from
-- it and hold only what indexes and other sessions need. Times are milliseconds since 1970.

-- The one clock of the store. Tests replace this function.
--
-- Every function pins its search path: unqualified names in it mean the server's own objects,
-- whatever the caller's path is. It is PL/pgSQL because an SQL function with a `set` clause costs
-- 12 microseconds a call, and this one 3.
create function consign.now_ms() returns bigint language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$ begin return (date_part('epoch'::text, clock_timestamp()) * 1000::double precision)::bigint; end $$;

-- A restore raises `epoch`, so that no lease from before is accepted. `batch_settings_version`
-- grows with every new queue, policy or pause: a batch fails if it was decided by an older version.
-- `record_version` grows with every credential, policy and pause that is set: nodes confirm it in
-- their rows.
create table consign.store_meta (
    singleton boolean primary key default true check (singleton),
    epoch integer not null default 0,
    batch_settings_version bigint not null default 1,
    record_version bigint not null default 0
);
insert into consign.store_meta default values;

-- Detects outages: until when workers could reach the store. The time from then to the next node's
-- heartbeat is an outage of the store, and no worker is taken to have been silent in it.
create table consign.liveness (
    singleton boolean primary key default true check (singleton),
    reachable_until bigint not null default 0
) with (fillfactor = 20);
insert into consign.liveness default values;

-- Fails a transaction that found fewer rows than the node expected from its caches: another session
-- has written a row, settings have changed, or the clock was set. The node then tries again and
-- reads everything.
create function consign.expect(actual bigint, expected bigint) returns void language plpgsql
set search_path = pg_catalog, pg_temp
as $$ begin
    if actual <> expected then
        raise exception 'a cached row or setting is out of date; the node reads everything and tries again'
            using errcode = 'CN001';
    end if;
end $$;

-- Only the schema's owner grants rights. `consign.enqueue` is for applications, the rest for nodes.
revoke all on function consign.now_ms, consign.expect from public;

-- Rows to lock: the end of the audit log, and the start-up lock of nodes. Advisory locks would do
-- the same, but every role that may connect can take those. These rows can be locked only by the
-- owner, and by roles to which it grants that.
create table consign.lock (name text primary key);
insert into consign.lock (name) values ('audit'), ('startup');

-- Positions of events in the outbox, which new jobs also take the count in their numbers from. One
-- value stands for a block of positions.
create sequence consign.event_seq increment 1048576;

-- A queue: the jobs of one type and one tenant. Claims take from queues in turn.
create table consign.queue (
    no integer generated always as identity primary key,
    job_type text not null,
    tenant text not null,
    unique (job_type, tenant)
);

-- What was submitted. Written once, and deleted when the job is erased.
create table consign.submission (
    no bigint primary key,
    id uuid not null unique,
    queue integer not null,
    -- Digests, by which jobs are found.
    by_subject bigint,
    by_correlation bigint not null,
    by_parent bigint,
    subject text,
    envelope bytea not null,
    payload text not null,
    -- The payload that replaces the submitted one since a redrive. A repeated submit is compared
    -- with the submitted one.
    corrected_payload text
) with (autovacuum_vacuum_insert_scale_factor = 0.2);
create index submission_queue on consign.submission (queue, no);
-- Digests are random: in an index over all jobs, each entry would go to a page of its own. Jobs of
-- about an hour share a bucket, so that the cost of an entry does not grow with the number of jobs.
create index submission_subject on consign.submission ((no >> 42), by_subject, no) where by_subject is not null;
create index submission_correlation on consign.submission ((no >> 42), by_correlation, no);
create index submission_parent on consign.submission ((no >> 42), by_parent, no) where by_parent is not null;

-- Live jobs: a small table, and the only one that claims and sweeps scan. Every row is rewritten a
-- few times and then deleted, so it is vacuumed early and often.
create table consign.job (
    no bigint primary key,
    queue integer not null,
    -- While it waits: its rank (0 is the highest priority), and when it may start.
    rank smallint,
    run_at bigint,
    -- While it waits: when it expires, if ever.
    expires_at bigint,
    -- While it runs: when its lease ends.
    lease_until bigint,
    -- A digest of the code of its last failure.
    error bigint,
    -- Of a child: a digest of its tenant and parent. Of a job that waits for its children: the
    -- digest that they have.
    child_of bigint,
    awaits bigint,
    body bytea not null
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 2000,
        autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
alter table consign.job alter body set storage main;
create index job_ready on consign.job (queue, rank, run_at, no) where run_at is not null;
create index job_expiry on consign.job (expires_at) where expires_at is not null;
create index job_lease on consign.job (lease_until) where lease_until is not null;
create index job_error on consign.job (error, no) where error is not null;
create index job_child on consign.job (child_of) where child_of is not null;
create index job_awaits on consign.job (awaits) where awaits is not null;

-- Which jobs a claim got, so that a repeated claim gets the same. The row is written before the
-- claim scans for jobs, and blocks a claim of the same name meanwhile. Later only `jobs` changes,
-- which is in no index.
create table consign.claim (
    digest bigint primary key,
    claimed_at bigint not null,
    -- The ids of the jobs, concatenated; empty while the claim has got none.
    jobs bytea not null default ''
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);
create index claim_claimed_at on consign.claim (claimed_at);

-- Jobs that have ended: written once, read by listings.
create table consign.job_ended (
    no bigint primary key,
    queue integer not null,
    status smallint not null,
    error bigint,
    -- Whether the job has a key, and from when its retention counts; null for a poisoned job, which
    -- is kept until a person decides.
    keyed boolean not null,
    kept_since bigint,
    body bytea not null
);
alter table consign.job_ended alter body set storage main;
-- Nearly all ended jobs are completed (2), and listings find those by walking all.
create index ended_status on consign.job_ended (status, no) where status <> 2;
create index ended_error on consign.job_ended (error, no) where error is not null;
-- Poisoned jobs, counted by their codes: only they have no `kept_since`.
create index ended_poison on consign.job_ended (queue, error) where kept_since is null;
create index ended_kept on consign.job_ended (queue, keyed, kept_since) where kept_since is not null;

-- Which job a key means. Only jobs with a key are here, and expiry keeps the table small.
create table consign.key (
    queue integer not null,
    name text not null,
    id uuid not null,
    primary key (queue, name)
) with (autovacuum_vacuum_scale_factor = 0.05);
-- When the job of a key ended: its window counts from there. Rows are only added, so that a
-- transaction that ends a job need not wait for one that has locked its key.
create table consign.key_expiry (
    queue integer not null,
    ended_at bigint not null,
    name text not null,
    id uuid not null
);
create index key_expiry_at on consign.key_expiry (queue, ended_at);

-- History that no longer fits into the row of its job.
create table consign.history (
    no bigint not null,
    seq bigint not null,
    -- The position of the entry's event in the outbox, if it has one.
    event_seq bigint,
    body bytea not null,
    primary key (no, seq)
);

create table consign.step (
    no bigint not null,
    name text not null,
    body bytea not null,
    primary key (no, name)
);

-- Events. A row is a page of several events, under the position (`event_seq`) of the first. A
-- transaction takes its positions from the sequence while it holds its jobs' locks, or before the
-- jobs exist, so the events of one job are in order. The leader numbers events after their commit,
-- in the order of writing: pages without numbers are in `outbox_new`, and `outbox_number` has the
-- number of the first event of each numbered run.
create table consign.outbox (
    event_seq bigint primary key,
    page bytea not null
) with (toast_tuple_target = 8160);
alter table consign.outbox alter page set storage external;
create table consign.outbox_new (
    write_order bigint generated always as identity primary key,
    event_seq bigint not null,
    event_count integer not null
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);
create table consign.outbox_number (
    first_number bigint primary key,
    event_seq bigint not null,
    event_count integer not null
);
create table consign.numbering (
    singleton boolean primary key default true check (singleton),
    last_number bigint not null default 0
) with (fillfactor = 20);
insert into consign.numbering default values;

-- What the events of an erased job may still show of the job, until the last of them is pruned.
create table consign.erased (
    no bigint primary key,
    last_event_seq bigint not null,
    envelope bytea not null
);
create index erased_event_seq on consign.erased (last_event_seq);

-- How many jobs of each queue are in each status, and the changes since then: one row of changes
-- for each queue that a transaction touched, so that no transaction waits for a counter.
create table consign.counter (
    queue integer primary key,
    counts bigint[] not null
) with (fillfactor = 50);
create table consign.delta (
    queue integer not null,
    counts bigint[] not null
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 2000);

-- Records: what people and configuration set (policies, pauses, credentials). All kinds share one
-- table; the scope is a tenant, or '*'. An API key is stored only as a digest. A signing key is
-- stored as it is: a role that can read it can sign.
create table consign.record (
    kind text not null,
    scope text not null,
    key text not null,
    body bytea not null,
    primary key (kind, scope, key)
);

create table consign.worker (
    scope text not null,
    name text not null,
    seen_at bigint not null,
    body bytea not null,
    primary key (scope, name)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);

create table consign.audit (
    number bigint primary key,
    scope text not null,
    body bytea not null
);
create index audit_scope on consign.audit (scope, number);

-- The nodes that share this schema, and the one that leads.
create table consign.node (
    id text primary key,
    version text not null,
    started_at bigint not null,
    draining boolean not null,
    seen_at bigint not null,
    confirmed_version bigint not null default 0
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);
create table consign.leader (
    singleton boolean primary key default true check (singleton),
    node text,
    fence bigint not null default 0,
    leads_until bigint not null default 0
) with (fillfactor = 20);
insert into consign.leader default values;
