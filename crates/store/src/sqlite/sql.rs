//! Every statement that the store runs again and again. There is no rule in here on purpose.
//!
//! They stand in one place so that a test can read the plan of each (`plans.rs`): a statement that
//! walks a table is found there and not in production.

macro_rules! statements {
    ($($(#[$doc:meta])* $name:ident = $sql:expr;)+) => {
        $($(#[$doc])* pub(super) const $name: &str = $sql;)+

        /// All of them, by name.
        #[cfg(test)]
        pub(super) const ALL: &[(&str, &str)] = &[$((stringify!($name), $name)),+];
    };
}

/// So many rows are written with one statement, where there are as many.
pub(super) const ROWS_AT_ONCE: usize = 16;

macro_rules! sixteen {
    ($before:literal, $row:literal) => {
        sixteen!($before, $row, "")
    };
    ($before:literal, $row:literal, $after:literal) => {
        concat!(
            $before, $row, ", ", $row, ", ", $row, ", ", $row, ", ", $row, ", ", $row, ", ", $row,
            ", ", $row, ", ", $row, ", ", $row, ", ", $row, ", ", $row, ", ", $row, ", ", $row,
            ", ", $row, ", ", $row, $after,
        )
    };
}

statements! {
    // One job. A job is live or ended, and both are asked in one statement: between two it could move.
    JOB_BY_ID = "select h.no, h.envelope, j.body, e.body, coalesce(j.queue, e.queue) from handed h \
        left join job j on j.no = h.no left join job_ended e on e.no = h.no where h.id = ?1";
    JOB_BY_NO = "select h.no, h.envelope, j.body, e.body, coalesce(j.queue, e.queue) from handed h \
        left join job j on j.no = h.no left join job_ended e on e.no = h.no where h.no = ?1";
    /// All that a claim needs of a job that waits.
    START = "select h.no, h.envelope, j.body, null, j.queue, h.payload from job j \
        join handed h on h.no = j.no where j.no between ?1 and ?2";
    NEWEST_ID = "select max(id) from handed";
    PAYLOAD = "select payload from handed where no = ?1";
    HISTORY = "select seq, body from history where no = ?1 and seq > ?2 order by seq";
    HISTORY_NEWEST_FIRST = "select seq, body from history where no = ?1 order by seq desc";
    STEP = "select body from step where no = ?1 and name = ?2";
    STEPS_COUNT = "select count(*) from step where no = ?1";

    // Saving.
    HANDED_INSERT = "insert into handed (no, id, envelope, payload) values (?1, ?2, ?3, ?4)";
    HANDED_INSERT_16 =
        sixteen!("insert into handed (no, id, envelope, payload) values ", "(?, ?, ?, ?)");
    JOB_INSERT = "insert into job (no, queue, rank, run_at, expires_at, lease_until, claim, error, \
        body) values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
    JOB_INSERT_16 = sixteen!(
        "insert into job (no, queue, rank, run_at, expires_at, lease_until, claim, error, body) \
        values ",
        "(?, ?, ?, ?, ?, ?, ?, ?, ?)"
    );
    JOB_UPDATE = "update job set rank = ?2, run_at = ?3, expires_at = ?4, lease_until = ?5, \
        claim = ?6, error = ?7, body = ?8 where no = ?1";
    /// A claim: the failure before stays as it was, and so does its index.
    JOB_UPDATE_STATE = "update job set rank = ?3, run_at = ?4, expires_at = ?5, lease_until = ?6, \
        claim = ?7, body = ?8 where no = ?1 and queue = ?2";
    /// The same for many. All of them are there, so none is inserted.
    JOB_UPDATE_STATE_16 = sixteen!(
        "insert into job (no, queue, rank, run_at, expires_at, lease_until, claim, body) values ",
        "(?, ?, ?, ?, ?, ?, ?, ?)",
        " on conflict (no) do update set rank = excluded.rank, run_at = excluded.run_at, \
        expires_at = excluded.expires_at, lease_until = excluded.lease_until, \
        claim = excluded.claim, body = excluded.body"
    );
    /// A heartbeat: only the lease moves.
    JOB_UPDATE_LEASE = "update job set lease_until = ?2, body = ?3 where no = ?1";
    JOB_DELETE = "delete from job where no = ?1";
    JOBS_DELETE = "delete from job where no between ?1 and ?2";
    ENDED_INSERT = "insert into job_ended (no, queue, status, error, keyed, kept_since, body) \
        values (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    ENDED_INSERT_16 = sixteen!(
        "insert into job_ended (no, queue, status, error, keyed, kept_since, body) values ",
        "(?, ?, ?, ?, ?, ?, ?)"
    );
    ENDED_DELETE = "delete from job_ended where no = ?1";
    HISTORY_INSERT = "insert into history (no, seq, event, body) values (?1, ?2, ?3, ?4)";
    OUTBOX_INSERT = "insert into outbox (event, sheet) values (?1, ?2)";
    STEP_PUT = "insert or replace into step (no, name, body) values (?1, ?2, ?3)";
    STEPS_FORGET = "delete from step where no = ?1";
    DELTA_INSERT = "insert into delta (commit_no, body) values (?1, ?2)";

    // Keys.
    KEY = "select no from key where queue = ?1 and name = ?2";
    KEY_TAKE = "insert or replace into key (queue, name, no) values (?1, ?2, ?3)";
    KEY_ENDED = "update key set ended_at = ?4 where queue = ?1 and name = ?2 and no = ?3";
    KEY_DROP = "delete from key where queue = ?1 and name = ?2 and no = ?3";
    KEYS_OLD = "select name, no from key where queue = ?1 and ended_at <= ?2 limit ?3";

    // Claiming.
    CLAIMS = "select claim, no from job where lease_until is not null";
    READY = "select no from job where queue = ?1 and rank = ?2 and run_at <= ?3 \
        and (expires_at is null or expires_at > ?3) order by run_at, no limit ?4";
    READY_NEXT = "select min(run_at) from job where queue = ?1 and rank = ?2 and run_at > ?3";
    READY_RANK = "select min(rank) from job where queue = ?1 and rank > ?2 and run_at is not null";
    RUNNING = "select no from job where lease_until is not null order by lease_until";

    // What time demands.
    OVERDUE_LEASES = "select no from job where lease_until <= ?1 order by lease_until limit ?2";
    OVERDUE_EXPIRED = "select no from job where expires_at <= ?1 order by expires_at limit ?2";
    OVERDUE_KEPT = "select no from job_ended where queue = ?1 and keyed = ?2 and kept_since <= ?3 \
        order by kept_since limit ?4";

    // Depth and age.
    NOT_DUE_COUNT = "select count(*) from (select 1 from job where queue = ?1 and rank = ?2 \
        and run_at > ?3 limit ?4)";
    /// The plus keeps SQLite from walking all that waits, only because it lies in the order of queues.
    DUE_EXPIRED = "select queue, count(*) from job where expires_at <= ?1 and +run_at <= ?1 \
        group by +queue";
    DUE_FIRST = "select run_at from job where queue = ?1 and rank = ?2 and run_at <= ?3 \
        and (expires_at is null or expires_at > ?3) order by run_at limit 1";
    DUE_COUNT = "select count(*) from (select 1 from job where queue = ?1 and rank = ?2 \
        and run_at <= ?3 and (expires_at is null or expires_at > ?3) limit ?4)";
    DUE_BEFORE = "select count(*) from (select 1 from job where queue = ?1 and rank = ?2 \
        and run_at < ?3 and (expires_at is null or expires_at > ?4) limit ?5)";
    DUE_BESIDE = "select count(*) from (select 1 from job where queue = ?1 and rank = ?2 \
        and run_at = ?3 and no < ?4 and (expires_at is null or expires_at > ?5) limit ?6)";

    // What waits for a person.
    POISON_COUNTS = "select error, count(*) from job_ended where queue = ?1 \
        and kept_since is null group by error";
    POISON_FIRST = "select no from job_ended where queue = ?1 and error = ?2 \
        and kept_since is null limit 1";

    // Announcements.
    /// The sheets from the one that holds ?1.
    SHEETS = "select event, sheet from outbox where event >= \
        coalesce((select max(event) from outbox where event <= ?1), 0) and event <= ?2 order by event";
    SHEET_OF = "select event, sheet from outbox where event <= ?1 order by event desc limit 1";
    SHEET_PUT = "update outbox set sheet = ?2 where event = ?1";
    SHEET_DELETE = "delete from outbox where event = ?1";
    ENVELOPE = "select envelope from handed where no = ?1 \
        union all select envelope from erased where no = ?1";
    EVENTS_OF_JOB = "select event from history where no = ?1 and seq > ?2 and event is not null \
        order by seq";
    HOUSE_PUT = "update house set body = ?1";

    // Erasing.
    HANDED_DELETE = "delete from handed where no = ?1";
    HISTORY_DELETE = "delete from history where no = ?1";
    ERASED_INSERT = "insert into erased (no, last_event, envelope) values (?1, ?2, ?3)";
    ERASED_OLD = "select no from erased where last_event < ?1 order by last_event limit ?2";
    FIRST_EVENT = "select min(event) from outbox";
    ERASED_DELETE = "delete from erased where no = ?1";
    LISTING_DELETE = "delete from listing where shelf = ?1 and facet = ?2 and no = ?3";

    // Listings: numbers of jobs, newest first, below a number.
    LIST_ALL = "select no from handed where no < ?1 order by no desc limit ?2";
    LIST_TAIL = "select no from handed where no < ?1 and no > ?3 order by no desc limit ?2";
    LIST_FACET = "select no from listing where shelf = ?4 and facet = ?3 and no < ?1 \
        order by no desc limit ?2";
    LIST_LIVE = "select no from job where no < ?1 order by no desc limit ?2";
    LIST_RUNNING = "select no from job where lease_until is not null and +no < ?1 \
        order by +no desc limit ?2";
    LIST_ENDED = "select no from job_ended where no < ?1 order by no desc limit ?2";
    LIST_STATUS = "select no from job_ended where status = ?3 and status <> 2 and no < ?1 \
        order by no desc limit ?2";
    LIST_ERROR_LIVE = "select no from job where error = ?3 and no < ?1 order by no desc limit ?2";
    LIST_ERROR_ENDED = "select no from job_ended where error = ?3 and no < ?1 \
        order by no desc limit ?2";
    LAST_NO = "select max(no) from handed";
    FIRST_NO_FROM = "select no, envelope from handed where no >= ?1 order by no limit 1";
    UNLISTED = "select no, envelope from handed where no > ?1 order by no limit ?2";
    LISTING_INSERT = "insert or ignore into listing (shelf, facet, no) values (?1, ?2, ?3)";
    LISTING_INSERT_16 =
        sixteen!("insert or ignore into listing (shelf, facet, no) values ", "(?, ?, ?)");

    // The audit log.
    AUDIT_INSERT = "insert into audit (number, scope, body) values (?1, ?2, ?3)";
    AUDIT_HEAD = "select number, scope, body from audit order by number desc limit 1";
    AUDIT = "select number, scope, body from audit where number < ?1 order by number desc limit ?2";
    AUDIT_OF = "select number, scope, body from audit where scope = ?3 and number < ?1 \
        order by number desc limit ?2";

    // Settings, credentials, workers, counters: small tables, read as a whole.
    HOUSE = "select body from house";
    QUEUES = "select no, job_type, tenant, body from queue";
    QUEUES_OF = "select no, job_type, tenant, body from queue where tenant = ?1";
    QUEUES_OF_TYPE = "select no, job_type, tenant, body from queue where job_type = ?1";
    COUNTER = "select body from counter where queue = ?1";
    POLICIES = "select job_type, body from policy";
    PAUSES = "select job_type, scope, body from pause";
    WORKERS = "select scope, name, body from worker";
    COUNTERS = "select queue, body from counter";
    DELTAS = "select commit_no, body from delta order by commit_no";
    QUEUE_INSERT = "insert into queue (no, job_type, tenant, body) values (?1, ?2, ?3, ?4)";
    POLICY_PUT = "insert or replace into policy (job_type, body) values (?1, ?2)";
    PAUSE_PUT = "insert or replace into pause (job_type, scope, body) values (?1, ?2, ?3)";
    PAUSE_LIFT = "delete from pause where job_type = ?1 and scope = ?2";
    WORKER_PUT = "insert or replace into worker (scope, name, seen_at, body) \
        values (?1, ?2, ?3, ?4)";
    WORKER_DROP = "delete from worker where scope = ?1 and name = ?2";
    COUNTER_PUT = "insert or replace into counter (queue, body) values (?1, ?2)";
    API_KEYS = "select id, body from api_key";
    API_KEYS_OF = "select id, body from api_key where scope = ?1";
    API_KEY_PUT = "insert or replace into api_key (id, scope, body) values (?1, ?2, ?3)";
    API_KEY_DROP = "delete from api_key where id = ?1";
    SIGNING_KEYS = "select id, body from signing_key";
    SIGNING_KEY_PUT = "insert or replace into signing_key (id, body) values (?1, ?2)";
    DELTAS_FORGET = "delete from delta where commit_no < ?1";
}
