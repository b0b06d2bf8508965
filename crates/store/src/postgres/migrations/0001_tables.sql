-- Everything that nodes share. A migration that was shipped never changes.
--
-- `consign` stands for the schema that the address names. `no` is a job's number: the millisecond of its
-- creation and a count, so it is time-ordered, never changes, and ties the tables together. A `body` is a
-- sealed row, as in the embedded store: the columns beside it are only what indexes and other
-- sessions need, and are derived from it. Times are milliseconds since 1970.

-- The one clock by which everything is judged. A test puts a hand on it by replacing this function.
--
-- Every function pins its path: whatever the caller looks through, names in it mean the server's own. In PL/pgSQL, because
-- a function in SQL that sets something costs 12 microseconds a call, and this one 3.
create function consign.now_ms() returns bigint language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$ begin return (date_part('epoch'::text, clock_timestamp()) * 1000::double precision)::bigint; end $$;

-- The epoch, which a restore raises, so that no lease from before is believed; and a number that grows
-- whenever a queue, a policy or a pause is new, so that nobody works with an old one. `set_version` grows with
-- every credential, policy and pause that is set; nodes confirm it in their rows.
create table consign.store_meta (
    one boolean primary key default true check (one),
    epoch integer not null default 0,
    settings bigint not null default 1,
    set_version bigint not null default 0
);
insert into consign.store_meta default values;

-- Until when workers could be heard: what lies between this and now, when everybody comes back, is no
-- worker's silence.
create table consign.liveness (
    one boolean primary key default true check (one),
    heard_until bigint not null default 0
) with (fillfactor = 20);
insert into consign.liveness default values;

-- Stops a transaction that found less than it took for granted: somebody else has written a row, something was set, or the
-- clock was set. The node tries again without taking anything for granted.
create function consign.expect(met bigint, known bigint) returns void language plpgsql
set search_path = pg_catalog, pg_temp
as $$ begin
    if met <> known then
        raise exception 'what was taken for granted is not so; the node tries again' using errcode = 'CN001';
    end if;
end $$;

-- Only what the schema's owner grants. `consign.enqueue` is for applications, and the rest for nodes.
revoke all on function consign.now_ms, consign.expect from public;

-- Rows to lock: the end of the audit log, and what only the first of the nodes that start makes. Advisory locks would do
-- the same, but every role that may connect can take them; these rows only the owner can touch, and who it lets.
create table consign.lock (name text primary key);
insert into consign.lock (name) values ('audit'), ('startup');

-- What is announced has its places from here, and new jobs the count in their numbers.
create sequence consign.place increment 1048576;

-- The jobs of one type and one tenant: what claims go round over.
create table consign.queue (
    no integer generated always as identity primary key,
    job_type text not null,
    tenant text not null,
    unique (job_type, tenant)
);

-- What was handed over. Written once, never changed, gone when the job is erased.
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
    payload text not null
) with (autovacuum_vacuum_insert_scale_factor = 0.2);
create index submission_queue on consign.submission (queue, no);
-- Digests are random: among all jobs, each would be written to a page of its own. Jobs of about an hour share a
-- bucket, so that the cost of an entry does not grow with the number of jobs.
create index submission_subject on consign.submission ((no >> 42), by_subject, no) where by_subject is not null;
create index submission_correlation on consign.submission ((no >> 42), by_correlation, no);
create index submission_parent on consign.submission ((no >> 42), by_parent, no) where by_parent is not null;

-- Jobs that live: small, and the only jobs that claiming and sweeping ever look at. Every row is rewritten a few
-- times and then deleted, so it is vacuumed early and often.
create table consign.job (
    no bigint primary key,
    queue integer not null,
    -- While it waits: 0 for the highest priority, and not before when.
    rank smallint,
    run_at bigint,
    -- While it waits and may be too late.
    expires_at bigint,
    -- While it runs: when its lease ends.
    lease_until bigint,
    -- A digest of the code of its last failure.
    error bigint,
    body bytea not null
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 2000,
        autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
alter table consign.job alter body set storage main;
create index job_ready on consign.job (queue, rank, run_at, no) where run_at is not null;
create index job_expiry on consign.job (expires_at) where expires_at is not null;
create index job_lease on consign.job (lease_until) where lease_until is not null;
create index job_error on consign.job (error, no) where error is not null;

-- Which jobs a claim was given, so that a repeated one gets the same. Its row is there before the claim looks for jobs,
-- and holds back whoever asks under the same name meanwhile. Nothing but `jobs` changes then, which is in no index.
create table consign.claim (
    digest bigint primary key,
    at bigint not null,
    -- Their ids, one behind another; nothing as long as it was given none.
    jobs bytea not null default ''
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);
create index claim_at on consign.claim (at);

-- Jobs that have ended: written once, read by listings.
create table consign.job_ended (
    no bigint primary key,
    queue integer not null,
    status smallint not null,
    error bigint,
    -- Whether it came with a key, and from when its retention counts; nothing while it waits for a person.
    keyed boolean not null,
    kept_since bigint,
    body bytea not null
);
alter table consign.job_ended alter body set storage main;
-- Nearly all are completed (2), and those are found by walking all.
create index ended_status on consign.job_ended (status, no) where status <> 2;
create index ended_error on consign.job_ended (error, no) where error is not null;
-- Jobs that wait for a person, counted by their codes: no other ended job has no moment from which its retention counts.
create index ended_poison on consign.job_ended (queue, error) where kept_since is null;
create index ended_kept on consign.job_ended (queue, keyed, kept_since) where kept_since is not null;

-- Which job a key means. Only jobs that were given a key are here, and expiry keeps it small.
create table consign.key (
    queue integer not null,
    name text not null,
    id uuid not null,
    primary key (queue, name)
) with (autovacuum_vacuum_scale_factor = 0.05);
-- When the job of a key ended: its window counts from there. Only ever added to, so that whoever ends a job need
-- not wait for whoever holds its key.
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
    -- Where its announcement stands, if it has one.
    place bigint,
    body bytea not null,
    primary key (no, seq)
);

create table consign.step (
    no bigint not null,
    name text not null,
    body bytea not null,
    primary key (no, name)
);

-- Announcements, several on a sheet, which is named by the place of the first. A transaction takes its places
-- from the sequence while it holds its jobs, or before there are any, so those of one job are in order. Numbers come
-- after the commit, in the order of writing: what has none yet is in `outbox_new`.
create table consign.outbox (
    place bigint primary key,
    sheet bytea not null
) with (toast_tuple_target = 8160);
alter table consign.outbox alter sheet set storage external;
create table consign.outbox_new (
    turn bigint generated always as identity primary key,
    place bigint not null,
    lines integer not null
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);
create table consign.outbox_number (
    first bigint primary key,
    place bigint not null,
    lines integer not null
);
create table consign.numbering (
    one boolean primary key default true check (one),
    last bigint not null default 0
) with (fillfactor = 20);
insert into consign.numbering default values;

-- What the announcements of an erased job may still say about it.
create table consign.erased (
    no bigint primary key,
    last_place bigint not null,
    envelope bytea not null
);
create index erased_place on consign.erased (last_place);

-- How many jobs of each queue stand where, and what has changed since that was written: one row of changes
-- for each queue that a transaction touched, so that nobody waits for a counter.
create table consign.counter (
    queue integer primary key,
    counts bigint[] not null
) with (fillfactor = 50);
create table consign.delta (
    queue integer not null,
    counts bigint[] not null
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 2000);

-- Records: what people and configuration set (policies, pauses, credentials). All kinds share one
-- table; the scope is a tenant, or '*'. An API key is stored by a digest only; whoever can read a
-- signing key can sign.
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

-- The processes that share this schema, and the one that does the chores for all.
create table consign.node (
    id text primary key,
    version text not null,
    started_at bigint not null,
    draining boolean not null,
    seen_at bigint not null,
    confirmed bigint not null default 0
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);
create table consign.leader (
    one boolean primary key default true check (one),
    node text,
    fence bigint not null default 0,
    until bigint not null default 0
) with (fillfactor = 20);
insert into consign.leader default values;
