-- `consign.enqueue`: submits jobs within an application's own transaction. Older nodes can go on,
-- but only newer ones promote inbox rows, and this function does not see policy changes by an older
-- node.
--
-- No rule of a job's life is in here. The function checks its arguments as the HTTP API does,
-- reserves the key, and writes a row. A node makes the job of it, through the same checks and the
-- same engine.

-- What the function must know of a policy, which itself is a sealed record.
create table consign.policy (
    job_type text primary key,
    key_window_ms bigint not null,
    max_queued bigint,
    has_schema boolean not null
);

-- How many bytes a payload may have that comes this way. The HTTP API's limit is a setting of each
-- node, which the function cannot read.
alter table consign.store_meta add enqueue_bytes_max integer not null default 65536
    check (enqueue_bytes_max between 1 and 1048576);
-- How many types without a policy a tenant may have, with what comes this way. A setting here for
-- the same reason.
alter table consign.store_meta add enqueue_job_types_max integer not null default 1000
    check (enqueue_job_types_max >= 1);

-- What was enqueued and is not a job yet. The node that makes the job deletes the row.
create table consign.inbox (
    id uuid primary key,
    -- When it was enqueued, and when it may start.
    enqueued_at bigint not null,
    run_at bigint not null,
    tenant text not null,
    job_type text not null,
    subject text,
    correlation text,
    -- The key as the client sent it, and as the table `key` stores it.
    key text,
    key_stored text,
    -- The job that had the key before, whose window is over.
    previous_key_job uuid,
    payload text not null,
    payload_version text,
    priority smallint,
    expires_at bigint,
    max_attempts integer,
    parent uuid,
    traceparent text,
    -- Why no job can be made of the row. It is not tried again, and stays for the operator to see.
    refused text
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_insert_scale_factor = 0.2);
-- Finds the types of a tenant without walking all its rows. Not restricted to rows without
-- `refused`: the planner would then use the index for queries that have nothing to do with types.
create index inbox_type on consign.inbox (tenant, job_type);
create index inbox_new on consign.inbox (id) where refused is null;
-- An insert with the key of a transaction that is still open waits for the end of that transaction.
create unique index inbox_key on consign.inbox (tenant, job_type, key_stored)
    where key_stored is not null and refused is null;

-- Whether two payloads mean the same. `jsonb` drops duplicate names, so there the texts must be
-- equal.
create function consign.same_json(a text, b text) returns boolean
language plpgsql immutable set search_path = pg_catalog, pg_temp
as $$
declare
    quoted constant text := '"(?:[^"\\]|\\.)*"';
    members_a text := regexp_replace(regexp_replace(a, quoted, '', 'g'), '[^:]', '', 'g');
    members_b text := regexp_replace(regexp_replace(b, quoted, '', 'g'), '[^:]', '', 'g');
begin
    if a = b then
        return true;
    end if;
    return a::jsonb = b::jsonb and members_a = members_b
        and members_a = regexp_replace(regexp_replace(a::jsonb::text, quoted, '', 'g'), '[^:]', '', 'g');
exception when numeric_value_out_of_range then
    return false; -- the HTTP API takes numbers that jsonb does not; the texts differ
end $$;

-- What is wrong with a payload, in the HTTP API's words; null if it is valid.
create function consign.payload_problem(payload text) returns text
language plpgsql immutable set search_path = pg_catalog, pg_temp
as $$
declare
    value jsonb;
begin
    value := payload::jsonb;
    if octet_length(payload) > 128 and jsonb_path_exists(value,
        'strict $.**{64} ? (@.type() == "array" || @.type() == "object")')
    then
        return 'payload: must not nest deeper than 64';
    end if;
    if payload ~ '[0-9][eE][+-]?[0-9]{10}'
        and regexp_replace(payload, '"(?:[^"\\]|\\.)*"', '', 'g') ~ '[0-9][eE][+-]?[0-9]{10}'
    then
        return 'payload: is not JSON: an exponent out of all proportion';
    end if;
    return null;
exception
    when untranslatable_character then
        return 'payload: must not contain U+0000';
    when statement_too_complex then
        return 'payload: must not nest deeper than 64';
    when numeric_value_out_of_range then
        return 'payload: has a number that PostgreSQL cannot hold; submit it by HTTP';
    when invalid_text_representation or data_exception then
        return 'payload: is not JSON: ' || sqlerrm;
end $$;

-- What is wrong with a text, in the HTTP API's words.
create function consign.text_problem(field text, value text, chars_max integer) returns text
language sql immutable set search_path = pg_catalog, pg_temp
as $$
    select case
        when value = '' then field || ': must not be empty'
        when char_length(value) > chars_max then field || ': must have at most ' || chars_max || ' characters'
    end
$$;

create function consign.range_problem(field text, value bigint, lowest bigint, highest bigint) returns text
language sql immutable set search_path = pg_catalog, pg_temp
as $$
    select case when value not between lowest and highest
        then field || ': must be from ' || lowest || ' to ' || highest || ', but is ' || value end
$$;

create function consign.name_problem(field text, value text) returns text
language sql immutable set search_path = pg_catalog, pg_temp
as $$
    select case
        when coalesce(value, '') = '' then field || ': is missing; it must match ^[a-z0-9][a-z0-9._-]{0,63}$'
        when value collate "C" !~ '^[a-z0-9][a-z0-9._-]{0,63}$'
            then field || ': must match ^[a-z0-9][a-z0-9._-]{0,63}$'
    end
$$;

create function consign.time_problem(field text, value timestamptz) returns text
language sql immutable set search_path = pg_catalog, pg_temp
as $$
    select case when value not between '1970-01-01T00:00:00Z' and '9999-12-31T23:59:59.999Z'
        then field || ': must lie between the years 1970 and 9999' end
$$;

create function consign.unix_ms(value timestamptz) returns bigint
language sql immutable set search_path = pg_catalog, pg_temp
as $$ select floor(extract(epoch from value) * 1000)::bigint $$;

-- A UUID of version 7: the millisecond first, so that ids sort by age, and random bits behind it.
create function consign.new_id(ms bigint) returns uuid
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
declare
    bytes bytea := overlay(uuid_send(gen_random_uuid()) placing substring(int8send(ms) from 3) from 1 for 6);
begin
    return encode(set_byte(bytes, 6, (get_byte(bytes, 6) & 15) | 112), 'hex')::uuid;
end $$;

-- The job that a key means, if any, and whether it is the same as the new submission. A key whose
-- window is over means no job.
create function consign.key_holder(
    of_type text, of_tenant text, stored_key text, new_subject text, new_payload text,
    out holder uuid, out is_free boolean, out is_same boolean
)
language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
declare
    window_ms bigint := (select p.key_window_ms from consign.policy p where p.job_type = of_type);
    window_start bigint := consign.now_ms() - coalesce(window_ms, 604800000);
    queue_no integer := (select q.no from consign.queue q where q.job_type = of_type and q.tenant = of_tenant);
    candidate record;
begin
    select k.id into holder from consign.key k where k.queue = queue_no and k.name = stored_key;
    -- One statement, because an inbox row may become a job at any moment. A row of this transaction
    -- has no key yet.
    select 1 as preference, i.id, i.subject, i.payload, null::smallint as status, null::bigint as kept_since into candidate
        from consign.inbox i where i.refused is null
        and i.tenant = of_tenant and i.job_type = of_type and i.key_stored = stored_key
    union all
    select 2, h.id, h.subject, h.payload, e.status, e.kept_since
        from consign.submission h
        left join lateral (select n.status, n.kept_since from consign.job_ended n where n.no = h.no offset 0) e on true
        where h.id = holder
    order by preference limit 1;
    holder := candidate.id;
    if holder is null then
        return;
    end if;
    is_free := candidate.status is not null and coalesce(candidate.kept_since <= window_start, false);
    -- The row of a poisoned job does not say when it ended. It may have ended more than once.
    if candidate.status = 4 and not is_free then
        is_free := exists (select from consign.key_expiry d where d.queue = queue_no and d.ended_at <= window_start
                and d.name = stored_key and d.id = holder)
            and not exists (select from consign.key_expiry d where d.queue = queue_no and d.ended_at > window_start
                and d.name = stored_key and d.id = holder);
    end if;
    is_same := candidate.subject is not distinct from new_subject and consign.same_json(candidate.payload, new_payload);
end $$;

-- How many types without a policy a tenant has jobs of, or will have when its inbox rows are jobs.
create function consign.undeclared_types(of_tenant text) returns bigint
language sql stable set search_path = pg_catalog, pg_temp
as $$
    with recursive enqueued (job_type) as (
        (select i.job_type from consign.inbox i where i.tenant = of_tenant order by i.job_type limit 1)
        union all
        select (select i.job_type from consign.inbox i where i.tenant = of_tenant
            and i.job_type > e.job_type order by i.job_type limit 1)
        from enqueued e where e.job_type is not null
    )
    select pg_catalog.count(*) from (
        select q.job_type from consign.queue q where q.tenant = of_tenant
        union
        select e.job_type from enqueued e where e.job_type is not null
    ) every where not exists (select from consign.policy p where p.job_type = every.job_type)
$$;

-- Takes the key of a row when its transaction is about to commit, and not before: no node ever
-- waits for a transaction that stays open. A deferred trigger runs as the role that commits.
create function consign.take_key() returns trigger
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off set jit = off
as $$
declare
    queue_no integer;
begin
    select q.no into queue_no from consign.queue q where q.job_type = new.job_type and q.tenant = new.tenant;
    if queue_no is null then
        insert into consign.queue (job_type, tenant) values (new.job_type, new.tenant) on conflict do nothing;
        select q.no into queue_no from consign.queue q where q.job_type = new.job_type and q.tenant = new.tenant;
    end if;
    insert into consign.key (queue, name, id) values (queue_no, new.key_stored, new.id) on conflict do nothing;
    if found then
        return null;
    end if;
    -- The key was free when `enqueue` checked it. Either its window is over and its row is still
    -- there, or another transaction has taken it since.
    update consign.key k set id = new.id where k.queue = queue_no and k.name = new.key_stored
        and k.id = new.previous_key_job;
    -- If its job was redriven meanwhile, that job has its key back.
    if not found or exists (select from consign.job j
        where j.no = (select h.no from consign.submission h where h.id = new.previous_key_job))
    then
        raise exception using errcode = 'serialization_failure', detail = 'IDEMPOTENCY_KEY_REUSED',
            message = 'idempotencyKey: was taken by another job while this transaction was open',
            hint = 'repeat the transaction';
    end if;
    return null;
end $$;
create constraint trigger take_key after insert on consign.inbox deferrable initially deferred
    for each row when (new.key_stored is not null) execute function consign.take_key();

-- Submits a job in the caller's own transaction: its commit makes the job, its rollback leaves
-- nothing. Returns the job's id, and whether an earlier submission had the same key.
--
-- A payload is json, jsonb, or text that is JSON.
create function consign.enqueue(
    job_type text,
    payload anycompatible default 'null'::text,
    subject text default null,
    key text default null,
    correlation text default null,
    priority integer default null,
    run_at timestamptz default null,
    delay interval default null,
    expires_at timestamptz default null,
    max_attempts integer default null,
    payload_version text default null,
    parent uuid default null,
    traceparent text default null,
    tenant text default 'default',
    out job_id uuid,
    out duplicate boolean
)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
-- As in every transaction of a node: plans made on empty tables must be good on full ones.
set enable_seqscan = off set jit = off
as $$
#variable_conflict use_column
declare
    now_ms constant bigint := consign.now_ms();
    body text;
    bytes_max constant integer := (select h.enqueue_bytes_max from consign.store_meta h where h.singleton);
    types_max constant integer := (select h.enqueue_job_types_max from consign.store_meta h where h.singleton);
    delay_s constant numeric := extract(epoch from enqueue.delay);
    starts_ms bigint;
    expires_ms bigint;
    problems text;
    policy record;
    stored_key text;
    key_match record;
    is_new boolean := false;
    queued bigint;
begin
    -- Only these types, checked before the payload is used: a caller's own type may have a cast to
    -- text, which would run here with the rights of the owner.
    if pg_typeof(enqueue.payload) not in ('json'::regtype, 'jsonb'::regtype, 'text'::regtype, 'varchar'::regtype) then
        raise exception using errcode = 'CN400', detail = 'INVALID_FIELD',
            message = 'payload: must be json, jsonb or text, but is ' || pg_typeof(enqueue.payload),
            hint = 'make JSON of it with to_jsonb';
    end if;
    body := coalesce(btrim(enqueue.payload::text, E' \t\n\r'), 'null');
    if octet_length(body) > bytes_max then
        raise exception using errcode = 'CN413', detail = 'PAYLOAD_TOO_LARGE',
            message = 'payload: has ' || octet_length(body) || ' bytes, and at most ' || bytes_max || ' are taken',
            hint = 'put the data where the worker can fetch it and send its address';
    end if;
    problems := concat_ws('; ',
        consign.name_problem('jobType', enqueue.job_type),
        consign.name_problem('tenant', enqueue.tenant),
        consign.payload_problem(body),
        consign.text_problem('subjectId', enqueue.subject, 256),
        consign.text_problem('correlationId', enqueue.correlation, 128),
        case when enqueue.correlation ~ '[\u0001-\u001f\u007f-\u009f]'
            then 'correlationId: must not contain control characters' end,
        consign.text_problem('idempotencyKey', enqueue.key, 1024),
        consign.range_problem('maxAttempts', enqueue.max_attempts, 1, 100),
        consign.range_problem('priority', enqueue.priority, 0, 9),
        consign.text_problem('payloadVersion', enqueue.payload_version, 64),
        consign.time_problem('runAt', enqueue.run_at),
        case when enqueue.run_at is not null and enqueue.delay is not null
            then 'delaySeconds: must not be given together with runAt' end,
        case when delay_s not between 0 and 315360000
            then 'delaySeconds: must be from 0 to 315360000, but is ' || trim_scale(delay_s) end,
        consign.time_problem('expiresAt', enqueue.expires_at));
    if problems <> '' then
        raise exception using errcode = 'CN400', detail = 'INVALID_FIELD', message = problems,
            hint = 'correct the fields that the message names';
    end if;
    -- A delay counts from now, however long this transaction stays open.
    starts_ms := coalesce(consign.unix_ms(enqueue.run_at), now_ms + floor(delay_s * 1000)::bigint, now_ms);
    starts_ms := least(starts_ms, 253402300799999);
    expires_ms := consign.unix_ms(enqueue.expires_at);
    if expires_ms <= starts_ms then
        raise exception using errcode = 'CN400', detail = 'INVALID_FIELD',
            message = 'expiresAt: must be later than the moment it may start',
            hint = 'correct the fields that the message names';
    end if;

    select p.key_window_ms, p.max_queued, p.has_schema into policy
        from consign.policy p where p.job_type = enqueue.job_type;
    if policy.has_schema then
        raise exception using errcode = 'CN422', detail = 'SCHEMA_MISMATCH',
            message = 'payload: ' || enqueue.job_type || ' has a JSON Schema, which cannot be asked in SQL',
            hint = 'submit this type by HTTP, or remove its schema';
    end if;

    job_id := consign.new_id(now_ms);
    duplicate := false;
    -- Long keys are stored as hashes, and so are keys that look like one.
    stored_key := case when char_length(enqueue.key) > 128 or enqueue.key like 'sha256:%'
        then 'sha256:' || encode(sha256(convert_to(enqueue.key, 'UTF8')), 'hex') else enqueue.key end;

    select null::uuid as holder, null::boolean as is_free, null::boolean as is_same into key_match;
    for attempt in 1..5 loop
        if stored_key is not null then
            select * into key_match
                from consign.key_holder(enqueue.job_type, enqueue.tenant, stored_key, enqueue.subject, body);
        end if;
        exit when key_match.holder is not null and not key_match.is_free;
        insert into consign.inbox (id, enqueued_at, run_at, tenant, job_type, subject, correlation, key, key_stored,
            previous_key_job, payload, payload_version, priority, expires_at, max_attempts, parent, traceparent)
        values (job_id, now_ms, starts_ms, enqueue.tenant, enqueue.job_type, enqueue.subject, enqueue.correlation,
            enqueue.key, stored_key, key_match.holder, body, enqueue.payload_version, enqueue.priority, expires_ms,
            enqueue.max_attempts, enqueue.parent, enqueue.traceparent)
        on conflict do nothing;
        is_new := found;
        exit when is_new;
    end loop;
    if is_new then
        -- The count includes this job. Checked only after the key: a repeated key adds no job.
        if policy.max_queued is not null then
            select coalesce(sum(n), 0) into queued from (
                select c.counts[2] as n from consign.counter c join consign.queue q on q.no = c.queue
                    where q.job_type = enqueue.job_type and q.tenant = enqueue.tenant
                union all
                select d.counts[2] from consign.delta d join consign.queue q on q.no = d.queue
                    where q.job_type = enqueue.job_type and q.tenant = enqueue.tenant
                union all
                select 1 from consign.inbox i
                    where i.refused is null and i.job_type = enqueue.job_type and i.tenant = enqueue.tenant) waiting;
            if queued > policy.max_queued then
                raise exception using errcode = 'CN429', detail = 'QUEUE_FULL',
                    message = 'the queue of ' || enqueue.job_type || ' is full: ' || policy.max_queued || ' jobs wait',
                    hint = 'come again a little later; if it stays full, add workers or raise max_queued of the type';
            end if;
        end if;
        -- Only the first job of a type adds a type.
        if not exists (select from consign.queue q
                where q.job_type = enqueue.job_type and q.tenant = enqueue.tenant)
            and not exists (select from consign.policy p where p.job_type = enqueue.job_type)
            and consign.undeclared_types(enqueue.tenant) > types_max
        then
            raise exception using errcode = 'CN422', detail = 'TENANT_LIMIT',
                message = 'the tenant has ' || types_max || ' undeclared job types, and enqueue_job_types_max allows no more',
                hint = 'declare the types that are meant, or raise enqueue_job_types_max of the table store_meta';
        end if;
        -- Delivered when this transaction commits; PostgreSQL merges equal ones of one transaction.
        perform pg_notify('consign_' || split_part('consign.inbox', '.', 1), 'inbox');
    elsif key_match.is_same then
        job_id := key_match.holder;
        duplicate := true;
    elsif key_match.holder is null or key_match.is_free then
        raise exception using errcode = 'serialization_failure',
            message = 'other transactions took the key again and again', hint = 'repeat the transaction';
    else
        raise exception using errcode = 'CN422', detail = 'IDEMPOTENCY_KEY_REUSED',
            message = 'idempotencyKey: belongs to job ' || key_match.holder || ', which is a different job',
            hint = 'use a new key for a new job; a repeat has the same subject and payload as the first time';
    end if;
end $$;

revoke all on consign.inbox from public;
revoke all on function consign.same_json, consign.payload_problem, consign.text_problem, consign.range_problem,
    consign.name_problem, consign.time_problem, consign.unix_ms, consign.new_id, consign.key_holder,
    consign.undeclared_types, consign.take_key, consign.enqueue from public;
