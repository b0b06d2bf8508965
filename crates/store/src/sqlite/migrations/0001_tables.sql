-- Everything an embedded store remembers. A migration that was shipped never changes.
--
-- `no` is a job's number in order of arrival; it stays the same for ever and ties the tables together.
-- A `body` is a sealed row (seal.rs): the columns beside it are only what indexes need, and are
-- derived from it.

-- The one row about the house itself.
create table store_meta (
    one integer primary key check (one = 1),
    -- The epoch, which a restore raises, so that no lease from before is believed; how far
    -- announcements are published, and how far jobs are in `listing`.
    body blob not null
) strict;

-- The jobs of one type and one tenant: what claims go round over.
create table queue (
    no integer primary key,
    job_type text not null,
    tenant text not null,
    body blob not null,
    unique (job_type, tenant)
) strict;
create index queue_tenant on queue (tenant);

-- What was handed over. Written once, never changed, gone when the job is erased.
create table submission (
    no integer primary key,
    id blob not null unique,
    envelope blob not null,
    payload blob not null
) strict;

-- Jobs that live: small, and the only jobs that claiming and sweeping ever look at.
create table job (
    no integer primary key,
    queue integer not null,
    -- While it waits: 0 for the highest priority, and not before when.
    rank integer,
    run_at integer,
    -- While it waits and may be too late.
    expires_at integer,
    -- While it runs: when its lease ends, and a digest of the claim that took it. The writer knows by
    -- heart which jobs a claim holds: a second index would cost more than all its look-ups.
    lease_until integer,
    claim integer,
    -- A digest of the code of its last failure.
    error integer,
    body blob not null
) strict;
create index job_ready on job (queue, rank, run_at) where run_at is not null;
create index job_expiry on job (expires_at) where expires_at is not null;
create index job_lease on job (lease_until) where lease_until is not null;
create index job_error on job (error) where error is not null;

-- Jobs that have ended: written once, read by listings.
create table job_ended (
    no integer primary key,
    queue integer not null,
    status integer not null,
    error integer,
    -- Whether it came with a key, and from when its retention counts; nothing while it waits for a person.
    keyed integer not null,
    kept_since integer,
    body blob not null
) strict;
-- Nearly all are completed (2), and those are found by walking all.
create index ended_status on job_ended (status) where status <> 2;
create index ended_error on job_ended (error) where error is not null;
-- Jobs that wait for a person, counted by their codes: no other ended job has no moment from which its retention counts.
create index ended_poison on job_ended (queue, error) where kept_since is null;
create index ended_kept on job_ended (queue, keyed, kept_since) where kept_since is not null;

-- Which job a key means. Only jobs that were given a key are here, and expiry keeps it small.
create table key (
    queue integer not null,
    name text not null,
    no integer not null,
    -- When its job ended: its window counts from there.
    ended_at integer,
    primary key (queue, name)
) strict, without rowid;
create index key_expiry on key (queue, ended_at) where ended_at is not null;

-- One row per transition, numbered without gaps. It holds the record of the attempt it ended. The
-- youngest rows are in the body of their job (recent.rs); here are those of long histories that no longer
-- fit there.
create table history (
    no integer not null,
    seq integer not null,
    -- The number of its announcement, if it has one.
    event integer,
    body blob not null,
    primary key (no, seq)
) strict, without rowid;

create table step (
    no integer not null,
    name text not null,
    body blob not null,
    primary key (no, name)
) strict, without rowid;

-- Announcements, several on a sheet (sheet.rs), which is named by the number of the first. The writer is
-- alone and numbers them as it writes them; `store_meta` says how far they are published.
create table outbox (
    event integer primary key,
    sheet blob not null
) strict;

-- What the announcements of an erased job may still say about it.
create table erased (
    no integer primary key,
    last_event integer not null,
    envelope blob not null
) strict;
create index erased_event on erased (last_event);

-- Where a job can be found by what was handed over: digests of subject, correlation and parent, and
-- its queue. Filled behind the hot path, in sorted batches; `store_meta` says how far. Jobs that arrived
-- together share a bucket (digest.rs), so that the cost of an entry does not grow with the number of jobs.
create table listing (
    bucket integer not null,
    digest integer not null,
    no integer not null,
    primary key (bucket, digest, no)
) strict, without rowid;

-- How many jobs of each queue stand where, and what has changed since that was written: one row per
-- transaction, which also keeps the time and the last numbers it used. The newest row always stays.
create table counter (
    queue integer primary key,
    body blob not null
) strict;
create table delta (
    commit_no integer primary key,
    body blob not null
) strict;

-- Records: what people and configuration set (policies, pauses, credentials). All kinds share one
-- table; the scope is a tenant, or '*'. An API key is stored by a digest only; whoever can read a
-- signing key can sign.
create table record (
    kind text not null,
    scope text not null,
    key text not null,
    body blob not null,
    primary key (kind, scope, key)
) strict, without rowid;

create table worker (
    scope text not null,
    name text not null,
    seen_at integer not null,
    body blob not null,
    primary key (scope, name)
) strict, without rowid;
