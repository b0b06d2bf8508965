-- All tables of an embedded store. A released migration never changes.
--
-- `no` is a job's number in order of arrival. It never changes, and ties the tables together.
-- A `body` is a sealed row (seal.rs). The columns beside it are only what indexes need, and are
-- derived from it.

-- One row about the store itself.
create table store_meta (
    singleton integer primary key check (singleton = 1),
    -- The epoch, which a restore raises so that no earlier lease is valid; the last published
    -- event; and the last job that `listing` contains.
    body blob not null
) strict;

-- The jobs of one type and one tenant. Claims take turns over queues.
create table queue (
    no integer primary key,
    job_type text not null,
    tenant text not null,
    body blob not null,
    unique (job_type, tenant)
) strict;
create index queue_tenant on queue (tenant);

-- Submissions. Written once, and deleted when the job is erased.
create table submission (
    no integer primary key,
    id blob not null unique,
    envelope blob not null,
    payload blob not null,
    -- The payload that replaces the submitted one since a redrive.
    corrected_payload blob
) strict;

-- Jobs that have not ended: few rows, and the only jobs that claims and sweeps read.
create table job (
    no integer primary key,
    queue integer not null,
    -- While the job waits: its rank (0 is the highest priority), and when it is due.
    rank integer,
    run_at integer,
    -- While the job waits and may expire.
    expires_at integer,
    -- While the job runs: when its lease ends, and a digest of the claim that took it. The writer
    -- keeps in memory which jobs a claim holds: a second index would cost more than all its
    -- lookups.
    lease_until integer,
    claim integer,
    -- A digest of the code of its last failure.
    error integer,
    -- Of a child: a digest of its tenant and parent. Of a job that waits for its children: the
    -- digest that they have.
    child_of integer,
    awaits integer,
    body blob not null
) strict;
create index job_ready on job (queue, rank, run_at) where run_at is not null;
create index job_expiry on job (expires_at) where expires_at is not null;
create index job_lease on job (lease_until) where lease_until is not null;
create index job_error on job (error) where error is not null;
create index job_child on job (child_of) where child_of is not null;
create index job_awaits on job (awaits) where awaits is not null;

-- Jobs that have ended: written once, read by listings.
create table job_ended (
    no integer primary key,
    queue integer not null,
    status integer not null,
    error integer,
    -- Whether it has a key, and when its retention began; null while it waits for a person.
    keyed integer not null,
    kept_since integer,
    body blob not null
) strict;
-- Nearly all are completed (2), and listings find those by a walk over all.
create index ended_status on job_ended (status) where status <> 2;
create index ended_error on job_ended (error) where error is not null;
-- Poisoned jobs, counted by error code: only they have no time from which retention counts.
create index ended_poison on job_ended (queue, error) where kept_since is null;
create index ended_kept on job_ended (queue, keyed, kept_since) where kept_since is not null;

-- The job of each key. Only jobs with a key are here, and expiry keeps the table small.
create table key (
    queue integer not null,
    name text not null,
    no integer not null,
    -- When its job ended: its window counts from there.
    ended_at integer,
    primary key (queue, name)
) strict, without rowid;
create index key_expiry on key (queue, ended_at) where ended_at is not null;

-- One row per transition, numbered without gaps, with the record of the attempt that it ended. The
-- latest rows are in the body of their job (inline_history.rs); this table has the older rows of
-- long histories.
create table history (
    no integer not null,
    seq integer not null,
    -- The number of its event, if it has one.
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

-- Events, several per page (outbox_page.rs). A page is named by the number of its first event. The
-- only writer numbers events as it writes them; `store_meta` says how far they are published.
create table outbox (
    first_event integer primary key,
    page blob not null
) strict;

-- The data that the events of an erased job may still show.
create table erased (
    no integer primary key,
    last_event integer not null,
    envelope blob not null
) strict;
create index erased_event on erased (last_event);

-- The secondary index for listings (`GET /api/jobs`): digests of subject, correlation, parent and
-- queue. The writer fills it in sorted batches, after the submits; `store_meta` says how far. Jobs
-- that arrived together share a bucket (digest.rs), so that the cost of an entry does not grow with
-- the number of jobs.
create table listing (
    bucket integer not null,
    digest integer not null,
    no integer not null,
    primary key (bucket, digest, no)
) strict, without rowid;

-- How many jobs of each queue have each status, and the changes since the last roll-up: one row per
-- transaction, which also has the time and the last used numbers. The newest row always stays.
create table counter (
    queue integer primary key,
    body blob not null
) strict;
create table delta (
    commit_no integer primary key,
    body blob not null
) strict;

-- Records that people and configuration set: policies, pauses, credentials. All kinds share one
-- table; the scope is a tenant, or '*'. Of an API key only a digest is stored. A signing key is
-- stored itself: a program that can read it can sign.
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
