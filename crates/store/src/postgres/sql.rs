//! Every statement that the store runs again and again. There is no rule in here on purpose.
//!
//! Tables and functions are named with their schema, and operators have operands for which
//! `pg_catalog` has an exact match, so that nothing in `public` is ever taken for them
//! (`tests/hostile_public.rs`). Only `unnest` of several arrays is not qualified: it is a piece of
//! syntax, which means the server's own.
//!
//! They stand in one place so that a test can read the plan of each (`plans.rs`), whatever the statistics say. Values come as
//! arrays, and tables are asked by `= any(array)` or by a lateral look-up from `unnest`, never by a status beside one.

use std::{borrow::Cow, sync::LazyLock};

/// The schema, wherever a statement says `consign.`.
pub(crate) struct Names {
    schema: String,
}

const USUAL: &str = "consign";

impl Names {
    pub(super) fn new(schema: &str) -> Self {
        Names { schema: schema.into() }
    }

    pub(crate) fn of<'a>(&self, sql: &'a str) -> Cow<'a, str> {
        if self.schema == USUAL {
            return Cow::Borrowed(sql);
        }
        Cow::Owned(sql.replace("consign.", &format!("{}.", self.schema)))
    }

    pub(super) fn schema(&self) -> &str {
        &self.schema
    }
}

macro_rules! statements {
    ($($(#[$doc:meta])* $name:ident = $sql:expr;)+) => {
        $($(#[$doc])* pub(super) const $name: &str = $sql;)+

        /// All of them, by name.
        #[cfg(test)]
        pub(super) const ALL: &[(&str, &str)] = &[$((stringify!($name), $name)),+];
    };
}

/// Jobs by a digest, shelf by shelf from the newest on. There may be thousands of shelves, and a look at one is a step
/// into an index.
macro_rules! on_shelves {
    ($column:literal) => {
        concat!(
            "select h.no from pg_catalog.generate_series( \
                (select no from consign.handed where no < $1::int8 order by no desc limit 1) >> 42, \
                (select no from consign.handed where no >= $3::int8 order by no limit 1) >> 42, -1) s(shelf) \
            cross join lateral (select no from consign.handed where (no >> 42) = s.shelf and ",
            $column,
            " = $4 and no < $1 and no >= $3 order by no desc limit $2) h limit $2"
        )
    };
}

/// What is announced, and what that changes of the counts: the end of a statement, or a part of it.
macro_rules! announced {
    () => {
        concat!(announced!(sheets), announced!(counts))
    };
    (within) => {
        concat!(announced!(sheets), ", counts as (", announced!(counts), ") ")
    };
    (sheets) => {
        "sheets as (insert into consign.outbox (place, sheet) select * from unnest($1::int8[], $2::bytea[])), \
        news as (insert into consign.outbox_new (place, lines) select * from unnest($1::int8[], $3::int4[])) "
    };
    (counts) => {
        "insert into consign.delta (queue, counts) \
        select queue, array[a, b, c, d, e, f, g, h, i] from unnest($4::int4[], $5::int8[], $6::int8[], $7::int8[], \
        $8::int8[], $9::int8[], $10::int8[], $11::int8[], $12::int8[], $13::int8[]) u(queue, a, b, c, d, e, f, g, h, i)"
    };
}

/// What was handed over, by ids, in the order of numbers. It is found first and sorted then: where that is one step, an index
/// by number may be walked to spare the sorting.
macro_rules! handed_in_order {
    () => {
        "(select * from (select id, no, queue, envelope from consign.handed where id = any($1) offset 0) h order by no) h"
    };
}

/// The rows of jobs that a statement is about, each looked up by its number. Where a table and an array are joined as equals,
/// the table may be walked instead: when statistics were taken of a moment in which all had been done.
///
/// A row that is held stays where it is. Of one that is not, more must be compared: servers differ in whether they meet one that
/// has moved meanwhile.
macro_rules! held_job {
    () => {
        "cross join lateral (select ctid from consign.job where no = u.no offset 0) held where j.ctid = held.ctid"
    };
}

/// Locks claims by their rows, in the order they are named in, and makes the rows first where there
/// are none. Gives back those that were given nothing before.
macro_rules! claims_locked {
    ($digests:literal) => {
        concat!(
            "insert into consign.claim as k (digest, at) \
            select d, (select consign.now_ms()) from pg_catalog.unnest(",
            $digests,
            "::int8[]) d \
            on conflict (digest) do update set at = excluded.at where k.jobs = '' returning digest"
        )
    };
}

/// Writes what claims were given into the rows by which they are locked. A row from an earlier
/// claim of the same name is kept from now on; that of a new one stays as it is, so that no index
/// has to be touched.
macro_rules! claims_given {
    ($digests:literal, $jobs:literal) => {
        concat!(
            "update consign.claim k set jobs = u.jobs, at = case when k.at < n.now - 60000 then n.now else k.at end \
            from (select consign.now_ms() as now offset 0) n cross join unnest(",
            $digests,
            "::int8[], ",
            $jobs,
            "::bytea[]) u(digest, jobs) \
            cross join lateral (select ctid from consign.claim where digest = u.digest offset 0) held \
            where k.ctid = held.ctid"
        )
    };
}

/// What was handed over, and the jobs that begin with it or begin again: the beginning of a statement. What belongs together is
/// one statement: each has a price of its own, whatever it writes.
macro_rules! begun {
    () => {
        "with handed as (insert into consign.handed (no, id, queue, by_subject, by_correlation, by_parent, \
        subject, envelope, payload) select * from unnest($14::int8[], $15::uuid[], $16::int4[], $17::int8[], $18::int8[], \
        $19::int8[], $20::text[], $21::bytea[], $22::text[])), \
        jobs as (insert into consign.job (no, queue, rank, run_at, expires_at, lease_until, error, body) \
        select * from unnest($23::int8[], $24::int4[], $25::int2[], $26::int8[], $27::int8[], $28::int8[], $29::int8[], \
        $30::bytea[])), "
    };
}

/// How transactions begin that write, and such as only ask and want one moment.
pub(super) const WRITE: &str = "begin isolation level read committed";
pub(super) const READ: &str = "begin isolation level repeatable read read only";

/// What unqualified names mean: the server's own objects, and nothing that another role may create.
/// Listed last, the session's temporary schema goes before none of them.
macro_rules! search_path {
    () => {
        "search_path = pg_catalog, pg_temp"
    };
}

/// The same as an option of a session, set before its first statement. A later option of the same
/// name goes before an earlier one, so this one stands last.
pub(super) const PATH_OPTION: &str = "-c search_path=pg_catalog,pg_temp";

/// Begins a transaction in a session of which nothing is known: behind a pooler, what was set for
/// the session is not there, or is another client's.
pub(super) const BEGIN_PINNED: &str = concat!("begin; set local ", search_path!());

/// They keep strangers' objects out, and they keep the planner from choosing by statistics of a
/// table that was empty a minute ago. And a node that is stopped in mid-transaction must not hold
/// its jobs for long.
const SETTINGS: [&str; 12] = [
    search_path!(),
    "enable_seqscan = off",
    "enable_hashjoin = off",
    "enable_mergejoin = off",
    "enable_bitmapscan = off",
    "enable_material = off",
    "jit = off",
    "plan_cache_mode = force_generic_plan",
    "default_transaction_isolation = 'read committed'",
    "statement_timeout = '25s'",
    "lock_timeout = '10s'",
    "idle_in_transaction_session_timeout = '10s'",
];

/// Our settings, for the whole session or `local`ly, for a transaction.
pub(super) fn settings(reach: &str) -> String {
    SETTINGS.map(|setting| format!("set {reach} {setting}")).join("; ")
}

/// Begins a transaction. Where the session is not ours alone, it brings its settings along.
pub(super) fn begin(how: &'static str, own: bool) -> Cow<'static, str> {
    static LOCAL: LazyLock<String> = LazyLock::new(|| settings("local"));
    if own { Cow::Borrowed(how) } else { Cow::Owned(format!("{how}; {}", *LOCAL)) }
}

pub(super) const COMMIT: &str = "commit";
pub(super) const ROLLBACK: &str = "rollback";

/// What is run so often that it is worth a plan in each session.
pub(super) const FREQUENT: &[&str] = &[
    CLOCK,
    NOW,
    HEARD,
    SETTINGS_NOW,
    AUDIT_LOCK,
    JOBS_LIVE,
    JOBS_ENDED,
    JOBS_READ,
    ENVELOPES,
    PAYLOAD,
    STEPS,
    STEPS_COUNT,
    STEPS_PUT,
    QUEUED,
    KEYS_TAKE,
    KEYS_HELD,
    KEYS_DROP,
    KEYS_ENDED,
    JOB_UPDATE,
    JOB_DELETE,
    JOBS_KNOWN,
    ENDED_INSERT,
    JOBS_BEGIN,
    HAND_OVER,
    JOBS_START,
    JOBS_END_KNOWN,
    ANNOUNCE,
    CLAIMS_HELD,
    CLAIMS_LOCK,
    CLAIMS_GIVE,
    READY,
    READY_NEXT,
    OVERDUE_LEASES,
    OVERDUE_EXPIRED,
    NUMBERING_LOCK,
    NUMBERING_NEW,
    NUMBERING_PUT,
    NUMBERS_INSERT,
    NUMBERED_DROP,
    EVENTS,
    INBOX_PEEK,
    INBOX_AMONG,
    WORKERS_PUT,
];

statements! {
    // Time, and what a transaction needs of the house.
    /// After the locks are held.
    CLOCK = "select consign.now_ms(), h.epoch, h.settings, pg_catalog.nextval('consign.place'), \
        case when $1::bool then pg_catalog.pg_current_xact_id() else pg_catalog.pg_current_xact_id_if_assigned() end, \
        pg_catalog.pg_postmaster_start_time() from consign.house h";
    /// Places beside each other are not needed: each stands for a block of numbers.
    PLACES = "select pg_catalog.nextval('consign.place') from pg_catalog.generate_series(1, $1::int4)";
    NOW = "select consign.now_ms()";
    /// A server that crashed gives numbers of transactions that never reached its disk to others: after a restart
    /// "committed" may be said of somebody else's, and only "aborted" can be believed.
    XACT_STATUS = "select status from (select pg_catalog.pg_xact_status($1::xid8) as status) s \
        where status = 'aborted' or $2::timestamptz = pg_catalog.pg_postmaster_start_time()";
    HEARD = "with free as (select one from consign.pulse where heard_until < $1 for update skip locked) \
        update consign.pulse p set heard_until = $1 from free where p.one = free.one";

    // Rows that are there to be locked.
    AUDIT_LOCK = "select name from consign.lock where name = 'audit' for update";
    STARTUP_LOCK = "select name from consign.lock where name = 'startup' for update";

    // Loading.
    /// In the order of their numbers, so that no two transactions wait for each other.
    JOBS_LIVE = concat!(
        "select h.id, h.no, h.queue, h.envelope, j.body from ", handed_in_order!(), " \
        cross join lateral (select body from consign.job where no = h.no for update) j"
    );
    JOBS_ENDED = concat!(
        "select h.id, h.no, h.queue, h.envelope, e.body from ", handed_in_order!(), " \
        cross join lateral (select body from consign.job_ended where no = h.no for update) e"
    );
    /// A job is live or ended, and both are asked in one statement: between two it could move.
    JOBS_READ = "select id, no, queue, envelope, coalesce( \
        (select body from consign.job j where j.no = h.no), (select body from consign.job_ended e where e.no = h.no)) \
        from consign.handed h where id = any($1)";
    JOBS_BY_NO = "select id, no, queue, envelope, coalesce( \
        (select body from consign.job j where j.no = h.no), (select body from consign.job_ended e where e.no = h.no)) \
        from consign.handed h where no = any($1)";
    ENVELOPES = "select id, no, queue, envelope from consign.handed where id = any($1)";
    PAYLOAD = "select payload from consign.handed where no = $1";
    HISTORY = "select no, seq, place, body from consign.history where no = any($1) and seq > $2 order by no, seq";
    STEPS = "select s.no, s.name, s.body from unnest($1::int8[], $2::text[]) u(no, name) \
        cross join lateral (select * from consign.step where no = u.no and name = u.name offset 0) s";
    STEPS_COUNT = "select u.no, (select pg_catalog.count(*) from consign.step s where s.no = u.no) from pg_catalog.unnest($1::int8[]) u(no)";
    QUEUED = "select q.no, coalesce((select c.counts[2] from consign.counter c where c.queue = q.no), 0) \
        + coalesce((select pg_catalog.sum(d.counts[2]) from consign.delta d where d.queue = q.no), 0)::int8 \
        from pg_catalog.unnest($1::int4[]) q(no)";

    // Keys.
    /// Takes keys that are free, and locks those that are not without writing them.
    KEYS_TAKE = "insert into consign.key as k (queue, name, id) \
        select * from unnest($1::int4[], $2::text[], $3::uuid[]) order by 1, 2 \
        on conflict (queue, name) do update set id = k.id where false returning queue, name";
    KEYS_HELD = "select k.queue, k.name, k.id from unnest($1::int4[], $2::text[]) u(queue, name) \
        cross join lateral (select * from consign.key where queue = u.queue and name = u.name offset 0) k";
    KEYS_LOCK = "select k.queue, k.name, k.id \
        from (select * from unnest($1::int4[], $2::text[]) order by 1, 2) u(queue, name) \
        cross join lateral (select * from consign.key where queue = u.queue and name = u.name for update) k";
    KEYS_SET = "update consign.key k set id = u.id from unnest($1::int4[], $2::text[], $3::uuid[]) u(queue, name, id) \
        cross join lateral (select ctid from consign.key where queue = u.queue and name = u.name offset 0) held \
        where k.ctid = held.ctid";
    KEYS_DROP = "delete from consign.key k using unnest($1::int4[], $2::text[]) u(queue, name) \
        cross join lateral (select ctid from consign.key where queue = u.queue and name = u.name offset 0) held \
        where k.ctid = held.ctid";
    KEYS_ENDED = "insert into consign.key_ended (queue, ended_at, name, id) \
        select * from unnest($1::int4[], $2::int8[], $3::text[], $4::uuid[])";
    KEYS_OLD = "select ctid::text, name, id from consign.key_ended where queue = $1 and ended_at <= $2 \
        order by ended_at limit $3 for update skip locked";
    KEYS_OLD_DROP = "delete from consign.key_ended where ctid = any($1::text[]::tid[])";

    // The inbox of `enqueue`.
    INBOX_NEXT = "select id, tenant, job_type, subject, correlation, key, payload, payload_version, priority::int4, \
        run_at, expires_at, max_attempts, parent, traceparent from consign.inbox where refused is null \
        order by id limit $1 for update skip locked";
    INBOX_THESE = "select id, tenant, job_type, subject, correlation, key, payload, payload_version, priority::int4, \
        run_at, expires_at, max_attempts, parent, traceparent from consign.inbox where id = any($1) and refused is null \
        order by id for update";
    INBOX_PEEK = "select id from consign.inbox where refused is null order by id limit $1";
    INBOX_AMONG = "select id from consign.inbox where id = any($1) and refused is null";
    INBOX_DELETE = "delete from consign.inbox where id = any($1)";
    INBOX_REFUSE = "update consign.inbox i set refused = u.reason from unnest($1::uuid[], $2::text[]) u(id, reason) \
        cross join lateral (select ctid from consign.inbox where id = u.id for update) held where i.ctid = held.ctid";
    INBOX_KEYS_DROP = "delete from consign.key where ctid = any(array(select k.ctid \
        from consign.inbox i \
        cross join lateral (select no from consign.queue where job_type = i.job_type and tenant = i.tenant offset 0) q \
        cross join lateral (select ctid from consign.key where queue = q.no and name = i.key_name and id = i.id for update) k \
        where i.id = any($1)))";

    // Saving.
    JOBS_BEGIN = concat!(begun!(), announced!());
    /// The same, of new jobs only, by a time that was foreseen, if it is near enough and nothing was set since; and a place for
    /// the next time. It is a transaction of its own.
    HAND_OVER = concat!(
        begun!(),
        announced!(within),
        "select pg_catalog.nextval('consign.place'), consign.expect((select pg_catalog.count(*) from consign.house \
            where settings = $31 and consign.now_ms() between $32::int8 and $32::int8 + 50), 1::int8)"
    );
    /// Jobs that were started, and which claims they were given to.
    JOBS_START = concat!(
        "with jobs as (update consign.job j set rank = u.rank, run_at = u.run_at, expires_at = u.expires_at, \
        lease_until = u.lease_until, error = u.error, body = u.body \
        from unnest($14::int8[], $15::int2[], $16::int8[], $17::int8[], $18::int8[], $19::int8[], $20::bytea[]) \
        u(no, rank, run_at, expires_at, lease_until, error, body) ", held_job!(), "), \
        claims as (", claims_given!("$21", "$22"), "), ",
        announced!()
    );
    JOB_UPDATE = concat!(
        "update consign.job j set rank = u.rank, run_at = u.run_at, expires_at = u.expires_at, \
        lease_until = u.lease_until, error = u.error, body = u.body \
        from unnest($1::int8[], $2::int2[], $3::int8[], $4::int8[], $5::int8[], $6::int8[], $7::bytea[]) \
        u(no, rank, run_at, expires_at, lease_until, error, body) ", held_job!()
    );
    JOB_DELETE = "delete from consign.job where no = any($1)";
    /// Ends jobs whose rows nobody holds, if they still are as they were written. One after another in the order they are
    /// named in.
    JOBS_END_KNOWN = concat!(
        "with gone as (delete from consign.job j using unnest($14::int8[], $15::xid[]) u(no, by) ", held_job!(), " \
        and j.xmin = u.by returning 1), \
        ended as (insert into consign.job_ended (no, queue, status, error, keyed, kept_since, body) \
        select * from unnest($16::int8[], $17::int4[], $18::int2[], $19::int8[], $20::bool[], $21::int8[], $22::bytea[])), ",
        announced!(within),
        "select consign.expect(pg_catalog.count(*), pg_catalog.cardinality($14::int8[])::int8) from gone"
    );
    /// The same of rows that are to change otherwise.
    JOBS_KNOWN = "select consign.expect(pg_catalog.count(*), pg_catalog.cardinality($1::int8[])::int8) from (select from \
        (select * from unnest($1::int8[], $2::xid[]) order by 1) u(no, by) \
        cross join lateral (select from consign.job where no = u.no and xmin = u.by for update) j) held";
    ENDED_INSERT = "insert into consign.job_ended (no, queue, status, error, keyed, kept_since, body) \
        select * from unnest($1::int8[], $2::int4[], $3::int2[], $4::int8[], $5::bool[], $6::int8[], $7::bytea[])";
    ENDED_UPDATE = "update consign.job_ended e set status = u.status, error = u.error, kept_since = u.kept_since, \
        body = u.body from unnest($1::int8[], $2::int2[], $3::int8[], $4::int8[], $5::bytea[]) \
        u(no, status, error, kept_since, body) \
        cross join lateral (select ctid from consign.job_ended where no = u.no offset 0) held where e.ctid = held.ctid";
    ENDED_DELETE = "delete from consign.job_ended where no = any($1)";
    HISTORY_INSERT = "insert into consign.history (no, seq, place, body) \
        select * from unnest($1::int8[], $2::int8[], $3::int8[], $4::bytea[])";
    STEPS_PUT = "insert into consign.step (no, name, body) \
        select * from unnest($1::int8[], $2::text[], $3::bytea[]) \
        on conflict (no, name) do update set body = excluded.body";
    STEPS_FORGET = "delete from consign.step where no = any($1)";
    OUTBOX_INSERT = "insert into consign.outbox (place, sheet) select * from unnest($1::int8[], $2::bytea[])";
    /// What is announced, and what that changes of the counts.
    ANNOUNCE = concat!("with ", announced!());

    // Erasing.
    HANDED_DELETE = "delete from consign.handed where no = any($1)";
    HISTORY_DELETE = "delete from consign.history where no = any($1)";
    ERASED_INSERT = "insert into consign.erased (no, last_place, envelope) \
        select * from unnest($1::int8[], $2::int8[], $3::bytea[])";
    ERASED_AMONG = "select 1 from consign.erased where no = any($1) limit 1";
    ERASED_OLD = "delete from consign.erased where no = any(array(select no from consign.erased \
        where last_place < coalesce((select place from consign.outbox order by place limit 1), 9223372036854775807) \
        order by last_place limit $1))";
    /// The sheets on which these places are, locked in their order.
    SHEETS_OF = "select place, sheet from consign.outbox where place = any(array( \
        select (select place from consign.outbox where place <= p order by place desc limit 1) from pg_catalog.unnest($1::int8[]) p)) \
        order by place for update";
    SHEETS_OF_READ = "select place, sheet from consign.outbox where place = any(array( \
        select (select place from consign.outbox where place <= p order by place desc limit 1) from pg_catalog.unnest($1::int8[]) p)) \
        order by place";
    SHEET_PUT = "update consign.outbox set sheet = $2 where place = $1";

    // Claiming.
    CLAIMS_HELD = "select digest, jobs from consign.claim where digest = any($1)";
    CLAIMS_LOCK = claims_locked!("$1");
    CLAIMS_GIVE = claims_given!("$1", "$2");
    CLAIMS_OLD = "delete from consign.claim where digest = any(array( \
        select digest from consign.claim where at <= $1 order by at limit $2 for update skip locked))";
    /// The first due jobs of each queue, the highest priority first. Each line has a time below which there was
    /// nothing left when it was last looked at.
    ///
    /// The last row is another: where jobs have their number, queue and time, a place, the epoch and the time by which all of it
    /// went; then the transaction, the settings and the server. What is found may have been announced after this transaction
    /// began; it is held now, so a place that is asked for behind it is behind those. And nothing is found that happened later
    /// than that time: what is due was ready before.
    ///
    /// And first of all the claims are locked that it is for, so that who asks again finds what was given or is about to be.
    /// How many of them were given nothing before stands in the last row, too.
    READY = concat!("with c as (", claims_locked!("$7"), "), \
        l as materialized (select pg_catalog.count(*) as held from c), \
        t as materialized (select case when l.held >= 0 then coalesce($5, consign.now_ms()) end as now from l) \
        select q.ord, d.no, d.body, h.id, h.queue, h.envelope, h.payload, d.rank, d.run_at, \
            null::xid8, null::int8, null::timestamptz, null::int8 \
        from unnest($1::int4[], $2::int4[]) with ordinality q(queue, wanted, ord) \
        cross join lateral (select j.no, j.body, j.run_at, r.rank \
            from pg_catalog.unnest($3::int2[]) r(rank) \
            cross join lateral (select no, body, run_at from consign.job \
                where queue = q.queue and rank = r.rank \
                and run_at >= ($4::int8[])[(q.ord - 1) * $6::int8 + r.rank + 1] \
                and run_at <= (select now from t) and (expires_at is null or expires_at > (select now from t)) \
                order by run_at, no limit q.wanted for update skip locked) j \
            limit q.wanted) d \
        cross join lateral (select * from consign.handed where no = d.no offset 0) h \
        union all select 0, pg_catalog.nextval('consign.place'), null, null, house.epoch, null, null, null, (select now from t), \
            pg_catalog.pg_current_xact_id_if_assigned(), house.settings, pg_catalog.pg_postmaster_start_time(), \
            (select held from l) from consign.house");

    // What time demands.
    OVERDUE_LEASES = "select no from consign.job where lease_until <= $1 order by lease_until limit $2";
    OVERDUE_EXPIRED = "select no from consign.job where expires_at <= $1 order by expires_at limit $2";
    OVERDUE_KEPT = "select no from consign.job_ended where queue = $1 and keyed = $2 and kept_since <= $3 \
        order by kept_since limit $4";
    RUNNING = "select h.id from consign.job j \
        cross join lateral (select id from consign.handed where no = j.no offset 0) h \
        where j.lease_until > 0 order by j.lease_until";
    LEASES = "select h.id, h.no, h.queue, h.envelope, j.body from consign.job j \
        cross join lateral (select * from consign.handed where no = j.no offset 0) h where j.lease_until > 0 order by j.lease_until";
    READY_NEXT = "select pg_catalog.min((select run_at from consign.job where queue = q.no and rank = r.rank and run_at > $3 \
            order by run_at limit 1)) \
        from pg_catalog.unnest($1::int4[]) q(no), pg_catalog.unnest($2::int2[]) r(rank)";

    // Depth and age.
    DEPTHS = "select q.no, r.rank, \
        (select pg_catalog.count(*) from (select 1 from consign.job where queue = q.no and rank = r.rank and run_at > $3 \
            limit $4) later), \
        (select run_at from consign.job where queue = q.no and rank = r.rank and run_at <= $3 \
            and (expires_at is null or expires_at > $3) order by run_at limit 1) \
        from pg_catalog.unnest($1::int4[]) q(no), pg_catalog.unnest($2::int2[]) r(rank)";
    DUE_COUNT = "select pg_catalog.count(*) from (select 1 from consign.job where queue = $1 and rank = $2 \
        and run_at <= $3 and (expires_at is null or expires_at > $3) limit $4) due";
    DUE_EXPIRED = "select queue, pg_catalog.count(*) \
        from (select queue, run_at from consign.job where expires_at <= $1 offset 0) late where run_at <= $1 group by queue";
    DUE_BEFORE = "select pg_catalog.count(*) from (select 1 from consign.job where queue = $1 and rank = $2 \
        and (run_at, no) < ($3, $4) and run_at <= $5 and (expires_at is null or expires_at > $5) limit $6) due";
    COUNTS = "select queue, counts from consign.counter where queue = any($1) \
        union all select queue, counts from consign.delta where queue = any($1)";
    POISON_COUNTS = "select queue, error, pg_catalog.count(*) from consign.job_ended where queue = any($1) \
        and kept_since is null group by queue, error";
    POISON_FIRST = "select e.no from unnest($1::int4[], $2::int8[]) u(queue, error) cross join lateral \
        (select no from consign.job_ended where queue = u.queue and error = u.error \
        and kept_since is null limit 1) e";
    ROLL_UP = "with gone as (delete from consign.delta where ctid = any(array( \
            select ctid from consign.delta limit $1 for update skip locked)) returning queue, counts), \
        sums as (select queue, pg_catalog.sum(counts[1])::int8 a, pg_catalog.sum(counts[2])::int8 b, pg_catalog.sum(counts[3])::int8 c, \
            pg_catalog.sum(counts[4])::int8 d, pg_catalog.sum(counts[5])::int8 e, pg_catalog.sum(counts[6])::int8 f, pg_catalog.sum(counts[7])::int8 g, \
            pg_catalog.sum(counts[8])::int8 h, pg_catalog.sum(counts[9])::int8 i from gone group by queue order by queue) \
        insert into consign.counter as k (queue, counts) \
        select queue, array[a, b, c, d, e, f, g, h, i] from sums \
        on conflict (queue) do update set counts = array[k.counts[1] + excluded.counts[1], \
            k.counts[2] + excluded.counts[2], k.counts[3] + excluded.counts[3], k.counts[4] + excluded.counts[4], \
            k.counts[5] + excluded.counts[5], k.counts[6] + excluded.counts[6], k.counts[7] + excluded.counts[7], \
            k.counts[8] + excluded.counts[8], k.counts[9] + excluded.counts[9]]";

    // Announcements.
    NUMBERING_LOCK = "select last from consign.numbering for update";
    NUMBERING_NEW = "select turn, place, lines from consign.outbox_new order by turn limit $1";
    NUMBERING_PUT = "update consign.numbering set last = $1";
    NUMBERS_INSERT = "insert into consign.outbox_number (first, place, lines) \
        select * from unnest($1::int8[], $2::int8[], $3::int4[])";
    NUMBERED_DROP = "delete from consign.outbox_new where turn = any($1)";
    OUTBOX_REST = "update consign.outbox_new set place = $2, lines = $3 where turn = $1";
    EVENTS = "select n.first, n.place, n.lines, o.place, o.sheet from consign.outbox_number n \
        cross join lateral (select place, sheet from consign.outbox where place <= n.place order by place desc limit 1) o \
        where n.first >= coalesce((select first from consign.outbox_number where first <= $1 order by first desc limit 1), 0) \
        order by n.first limit $2";
    EVENT_ENVELOPES = "select no, envelope from consign.handed where no = any($1) \
        union all select no, envelope from consign.erased where no = any($1)";
    SHEETS_FIRST = "select n.first, n.place, n.lines, o.place, o.sheet from consign.outbox_number n \
        cross join lateral (select place, sheet from consign.outbox where place <= n.place order by place desc limit 1) o \
        order by n.first limit 1 for update of n";
    NUMBER_PUT = "update consign.outbox_number set first = $2, place = $3, lines = $4 where first = $1";
    NUMBER_DELETE = "delete from consign.outbox_number where first = $1";
    SHEET_DELETE = "delete from consign.outbox where place = $1";

    // Listings: numbers of jobs, newest first, below a number. Pairs are compared where a column and the number are wanted:
    // asked for one by one, all numbers may be walked in the hope that the column is as wanted soon.
    LIST_ALL = "select no from consign.handed where no < $1 and no >= $3 order by no desc limit $2";
    LIST_QUEUE = "select no from consign.handed where (queue, no) < ($4, $1) and (queue, no) >= ($4, $3) \
        order by queue desc, no desc limit $2";
    LIST_SUBJECT = on_shelves!("by_subject");
    LIST_CORRELATION = on_shelves!("by_correlation");
    LIST_PARENT = on_shelves!("by_parent");
    LIST_LIVE = "select no from consign.job where no < $1 and no >= $3 order by no desc limit $2";
    LIST_RUNNING = "select no from (select no from consign.job where lease_until > 0 offset 0) r \
        where no < $1 and no >= $3 order by no desc limit $2";
    LIST_ENDED = "select no from consign.job_ended where no < $1 and no >= $3 order by no desc limit $2";
    LIST_STATUS = "select no from consign.job_ended where (status, no) < ($4, $1) and (status, no) >= ($4, $3) \
        and status <> 2 order by status desc, no desc limit $2";
    LIST_ERROR_LIVE = "select no from consign.job where (error, no) < ($4, $1) and (error, no) >= ($4, $3) \
        and error is not null order by error desc, no desc limit $2";
    LIST_ERROR_ENDED = "select no from consign.job_ended where (error, no) < ($4, $1) and (error, no) >= ($4, $3) \
        and error is not null order by error desc, no desc limit $2";

    // The audit log.
    AUDIT_HEAD = "select number, scope, body from consign.audit order by number desc limit 1";
    AUDIT_INSERT = "insert into consign.audit (number, scope, body) \
        select * from unnest($1::int8[], $2::text[], $3::bytea[])";
    AUDIT = "select number, scope, body from consign.audit where number < $1 order by number desc limit $2";
    AUDIT_OF = "select number, scope, body from consign.audit where (scope, number) < ($3, $1) and scope >= $3 \
        order by scope desc, number desc limit $2";

    // Settings, credentials, workers, nodes: small tables, read as a whole.
    SETTINGS_NOW = "select settings from consign.house";
    SETTINGS_CHANGED = "update consign.house set settings = settings + 1";
    SETTINGS_SET = "update consign.house set settings = settings + 1, set_version = set_version + 1";
    CREDENTIALS_SET = "update consign.house set set_version = set_version + 1";
    SET_VERSION = "select set_version from consign.house";
    QUEUES = "select no, job_type, tenant from consign.queue";
    QUEUES_INSERT = "insert into consign.queue (job_type, tenant) select * from unnest($1::text[], $2::text[]) \
        order by 1, 2 on conflict do nothing";
    POLICIES = "select job_type, body from consign.policy";
    PAUSES = "select job_type, scope from consign.pause";
    POLICY_PUT = "insert into consign.policy (job_type, body, key_window_ms, max_queued, has_schema) \
        values ($1, $2, $3, $4, $5) on conflict (job_type) do update set body = excluded.body, \
        key_window_ms = excluded.key_window_ms, max_queued = excluded.max_queued, has_schema = excluded.has_schema";
    POLICIES_UNTOLD = "select job_type from consign.policy where key_window_ms is null";
    PAUSE_PUT = "insert into consign.pause (job_type, scope) values ($1, $2) on conflict do nothing";
    PAUSE_LIFT = "delete from consign.pause where job_type = $1 and ($2 = '*' or scope = $2)";
    API_KEYS = "select id, body from consign.api_key";
    API_KEYS_OF = "select id, body from consign.api_key where scope = $1";
    API_KEY_PUT = "insert into consign.api_key (id, scope, body) values ($1, $2, $3) \
        on conflict (id) do update set scope = excluded.scope, body = excluded.body";
    API_KEY_DROP = "delete from consign.api_key where id = $1";
    SIGNING_KEYS = "select id, body from consign.signing_key";
    SIGNING_KEY_PUT = "insert into consign.signing_key (id, body) values ($1, $2) \
        on conflict (id) do update set body = excluded.body";
    WORKERS = "select scope, name, body from consign.worker";
    WORKERS_OF = "select scope, name, body from consign.worker where scope = any($1)";
    WORKERS_PUT = "insert into consign.worker as w (scope, name, seen_at, body) \
        select * from unnest($1::text[], $2::text[], $3::int8[], $4::bytea[]) order by 1, 2 \
        on conflict (scope, name) do update set seen_at = excluded.seen_at, body = excluded.body \
        where w.seen_at <= excluded.seen_at";
    WORKERS_LEAVE = "update consign.worker w set seen_at = u.seen_at, body = u.body \
        from (select * from unnest($1::text[], $2::text[], $3::int8[], $4::bytea[]) order by 1, 2) \
        u(scope, name, seen_at, body) cross join lateral (select ctid from consign.worker \
        where scope = u.scope and name = u.name and seen_at <= u.seen_at for update) held where w.ctid = held.ctid";
    WORKERS_DROP = "delete from consign.worker w using unnest($1::text[], $2::text[]) u(scope, name) \
        where w.scope = u.scope and w.name = u.name";
    PULSE_LOCK = "select heard_until from consign.pulse for update";
    PULSE_PUT = "update consign.pulse set heard_until = $1";
    LEADER_LOCK = "select node, fence, until from consign.leader for update";
    LEADER_READ = "select node, fence, until from consign.leader for share";
    LEADER_PUT = "update consign.leader set node = $1, fence = $2, until = $3";
    NODE_PUT = "insert into consign.node as n (id, version, started_at, draining, seen_at, confirmed) \
        values ($1, $2, $3, $4, $5, $6) \
        on conflict (id) do update set version = excluded.version, started_at = excluded.started_at, \
        draining = excluded.draining, seen_at = excluded.seen_at, confirmed = greatest(n.confirmed, excluded.confirmed)";
    NODES = "select id, version, started_at, draining, seen_at, confirmed from consign.node order by started_at, id";
    NODES_DROP = "delete from consign.node where seen_at <= $1";
    EPOCH_RAISE = "update consign.house set epoch = epoch + 1, settings = settings + 1";
}
