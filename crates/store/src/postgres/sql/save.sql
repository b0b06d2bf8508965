-- Writes what the engine decided. What belongs together is one statement: each statement costs time
-- of its own, whatever it writes. There is no rule in here on purpose.
--
-- Five statements below write events: they write pages of the outbox ($1, $2), mark them as not yet
-- numbered ($3), and write the changes of the counts ($4 to $13), one row for each queue.
--
-- Rows that change are found by number in a lateral `located` and updated by `ctid`. If a table and
-- an array were joined as equals, PostgreSQL might walk the table, when statistics were taken of a
-- moment in which all jobs had ended. A locked row keeps its `ctid`. For a row that is not locked,
-- a statement must compare more: servers differ in whether they find a row that has moved
-- meanwhile.

-- name: JOBS_INSERT
-- New jobs, and ended jobs that are live again.
with submission as (
  insert into consign.submission
    (no, id, queue, by_subject, by_correlation, by_parent, subject, envelope, payload)
  select * from unnest($14::int8[], $15::uuid[], $16::int4[], $17::int8[], $18::int8[],
                       $19::int8[], $20::text[], $21::bytea[], $22::text[])),
jobs as (
  insert into consign.job
    (queue, child_of, no, rank, run_at, expires_at, lease_until, error, awaits, body)
  select * from unnest($23::int4[], $24::int8[], $25::int8[], $26::int2[], $27::int8[], $28::int8[],
                       $29::int8[], $30::int8[], $31::int8[], $32::bytea[])),
pages as (
  insert into consign.outbox (event_seq, page) select * from unnest($1::int8[], $2::bytea[])),
unnumbered as (
  insert into consign.outbox_new (event_seq, event_count) select * from unnest($1::int8[], $3::int4[]))
insert into consign.delta (queue, counts)
select queue, array[a, b, c, d, e, f, g, h, i]
  from unnest($4::int4[], $5::int8[], $6::int8[], $7::int8[], $8::int8[], $9::int8[], $10::int8[],
              $11::int8[], $12::int8[], $13::int8[]) u(queue, a, b, c, d, e, f, g, h, i);

-- name: FAST_SUBMIT
-- The same for new jobs only, in a transaction of its own. The node decided by a predicted time, so
-- the statement fails if that time is not near enough or settings were changed. It returns an
-- outbox position for a later batch.
with submission as (
  insert into consign.submission
    (no, id, queue, by_subject, by_correlation, by_parent, subject, envelope, payload)
  select * from unnest($14::int8[], $15::uuid[], $16::int4[], $17::int8[], $18::int8[],
                       $19::int8[], $20::text[], $21::bytea[], $22::text[])),
jobs as (
  insert into consign.job
    (queue, child_of, no, rank, run_at, expires_at, lease_until, error, awaits, body)
  select * from unnest($23::int4[], $24::int8[], $25::int8[], $26::int2[], $27::int8[], $28::int8[],
                       $29::int8[], $30::int8[], $31::int8[], $32::bytea[])),
pages as (
  insert into consign.outbox (event_seq, page) select * from unnest($1::int8[], $2::bytea[])),
unnumbered as (
  insert into consign.outbox_new (event_seq, event_count) select * from unnest($1::int8[], $3::int4[])),
counts as (
  insert into consign.delta (queue, counts)
  select queue, array[a, b, c, d, e, f, g, h, i]
    from unnest($4::int4[], $5::int8[], $6::int8[], $7::int8[], $8::int8[], $9::int8[], $10::int8[],
                $11::int8[], $12::int8[], $13::int8[]) u(queue, a, b, c, d, e, f, g, h, i))
select pg_catalog.nextval('consign.event_seq'),
       consign.expect((select pg_catalog.count(*) from consign.store_meta
                        where batch_settings_version = $33
                          and consign.now_ms() between $34::int8 and $34::int8 + 50), 1::int8);

-- name: JOBS_START
-- Jobs that claims started, and which jobs each claim got (as in `CLAIM_RESULTS_PUT`).
with jobs as (
  update consign.job j
     set rank = u.rank, run_at = u.run_at, expires_at = u.expires_at, lease_until = u.lease_until,
         error = u.error, awaits = u.awaits, body = u.body
    from unnest($14::int8[], $15::int2[], $16::int8[], $17::int8[], $18::int8[], $19::int8[],
                $20::int8[], $21::bytea[])
         u(no, rank, run_at, expires_at, lease_until, error, awaits, body)
   cross join lateral (select ctid from consign.job where no = u.no offset 0) located
   where j.ctid = located.ctid),
claims as (
  update consign.claim k
     set jobs = u.jobs,
         claimed_at = case when k.claimed_at < n.now - 60000 then n.now else k.claimed_at end
    from (select consign.now_ms() as now offset 0) n
   cross join unnest($22::int8[], $23::bytea[]) u(digest, jobs)
   cross join lateral (select ctid from consign.claim where digest = u.digest offset 0) located
   where k.ctid = located.ctid),
pages as (
  insert into consign.outbox (event_seq, page) select * from unnest($1::int8[], $2::bytea[])),
unnumbered as (
  insert into consign.outbox_new (event_seq, event_count) select * from unnest($1::int8[], $3::int4[]))
insert into consign.delta (queue, counts)
select queue, array[a, b, c, d, e, f, g, h, i]
  from unnest($4::int4[], $5::int8[], $6::int8[], $7::int8[], $8::int8[], $9::int8[], $10::int8[],
              $11::int8[], $12::int8[], $13::int8[]) u(queue, a, b, c, d, e, f, g, h, i);

-- name: JOB_UPDATE
-- Live jobs that changed and stay live.
update consign.job j
   set rank = u.rank, run_at = u.run_at, expires_at = u.expires_at, lease_until = u.lease_until,
       error = u.error, awaits = u.awaits, body = u.body
  from unnest($1::int8[], $2::int2[], $3::int8[], $4::int8[], $5::int8[], $6::int8[], $7::int8[],
              $8::bytea[]) u(no, rank, run_at, expires_at, lease_until, error, awaits, body)
 cross join lateral (select ctid from consign.job where no = u.no offset 0) located
 where j.ctid = located.ctid;

-- name: JOB_DELETE
-- Live jobs that have ended or are erased.
delete from consign.job where no = any($1);

-- name: CACHED_JOBS_END
-- Ends jobs that are in the node's lease cache and not locked, if their rows are still as the node
-- wrote them: `xmin` is the transaction that did. It deletes rows one after another, in the order
-- of the parameters.
with removed as (
  delete from consign.job j
   using unnest($14::int8[], $15::xid[]) u(no, written_by)
   cross join lateral (select ctid from consign.job where no = u.no offset 0) located
   where j.ctid = located.ctid and j.xmin = u.written_by
  returning 1),
ended as (
  insert into consign.job_ended (queue, keyed, no, status, error, kept_since, body)
  select * from unnest($16::int4[], $17::bool[], $18::int8[], $19::int2[], $20::int8[], $21::int8[],
                       $22::bytea[])),
pages as (
  insert into consign.outbox (event_seq, page) select * from unnest($1::int8[], $2::bytea[])),
unnumbered as (
  insert into consign.outbox_new (event_seq, event_count) select * from unnest($1::int8[], $3::int4[])),
counts as (
  insert into consign.delta (queue, counts)
  select queue, array[a, b, c, d, e, f, g, h, i]
    from unnest($4::int4[], $5::int8[], $6::int8[], $7::int8[], $8::int8[], $9::int8[], $10::int8[],
                $11::int8[], $12::int8[], $13::int8[]) u(queue, a, b, c, d, e, f, g, h, i))
select consign.expect(pg_catalog.count(*), pg_catalog.cardinality($14::int8[])::int8) from removed;

-- name: CACHED_JOBS_LOCK
-- Locks such jobs where other statements change them, under the same condition.
select consign.expect(pg_catalog.count(*), pg_catalog.cardinality($1::int8[])::int8)
  from (select from (select * from unnest($1::int8[], $2::xid[]) order by 1) u(no, written_by)
         cross join lateral (
           select from consign.job where no = u.no and xmin = u.written_by for update) j) located;

-- name: ENDED_INSERT
-- Jobs that have ended.
insert into consign.job_ended (queue, keyed, no, status, error, kept_since, body)
select * from unnest($1::int4[], $2::bool[], $3::int8[], $4::int2[], $5::int8[], $6::int8[],
                     $7::bytea[]);

-- name: ENDED_UPDATE
-- Ended jobs that changed and stay ended.
update consign.job_ended e
   set status = u.status, error = u.error, kept_since = u.kept_since, body = u.body
  from unnest($1::int8[], $2::int2[], $3::int8[], $4::int8[], $5::bytea[])
       u(no, status, error, kept_since, body)
 cross join lateral (select ctid from consign.job_ended where no = u.no offset 0) located
 where e.ctid = located.ctid;

-- name: ENDED_DELETE
-- Ended jobs that are redriven or erased.
delete from consign.job_ended where no = any($1);

-- name: PAYLOADS_CORRECT
-- Payloads that an operator gave with a redrive. The submitted ones stay beside them.
update consign.submission s
   set corrected_payload = u.payload
  from unnest($1::int8[], $2::text[]) u(no, payload)
 cross join lateral (select ctid from consign.submission where no = u.no offset 0) located
 where s.ctid = located.ctid;

-- name: HISTORY_INSERT
-- History entries that no longer fit into the bodies of their jobs.
insert into consign.history (no, seq, event_seq, body)
select * from unnest($1::int8[], $2::int8[], $3::int8[], $4::bytea[]);

-- name: STEPS_PUT
-- What workers memoise under a name. The last value counts.
insert into consign.step (no, name, body)
select * from unnest($1::int8[], $2::text[], $3::bytea[])
on conflict (no, name) do update set body = excluded.body;

-- name: STEPS_FORGET
-- The memoised steps of jobs that have ended or are erased.
delete from consign.step where no = any($1);

-- name: EVENTS_INSERT
-- Writes events where no other statement of the batch does.
with pages as (
  insert into consign.outbox (event_seq, page) select * from unnest($1::int8[], $2::bytea[])),
unnumbered as (
  insert into consign.outbox_new (event_seq, event_count) select * from unnest($1::int8[], $3::int4[]))
insert into consign.delta (queue, counts)
select queue, array[a, b, c, d, e, f, g, h, i]
  from unnest($4::int4[], $5::int8[], $6::int8[], $7::int8[], $8::int8[], $9::int8[], $10::int8[],
              $11::int8[], $12::int8[], $13::int8[]) u(queue, a, b, c, d, e, f, g, h, i);
