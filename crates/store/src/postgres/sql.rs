//! Every statement that the store runs repeatedly, by its file in `sql/`, and how sessions and
//! transactions begin.
//!
//! Tables and functions are named with their schema, and operators have operands for which
//! `pg_catalog` has an exact match, so that no object in `public` is ever taken for them
//! (`tests/hostile_public.rs`). Only `unnest` of several arrays is not qualified: it is syntax,
//! which always means the server's own.
//!
//! Statements have names so that a test can check the plan of each (`plans.rs`), whatever the
//! statistics say.

use crate::statements::statements;
use std::{borrow::Cow, sync::LazyLock};

/// The schema that replaces `consign.` in statements.
pub(crate) struct Names {
    pub(super) schema: String,
}

const USUAL: &str = "consign";

impl Names {
    pub(crate) fn of<'a>(&self, sql: &'a str) -> Cow<'a, str> {
        if self.schema == USUAL {
            return Cow::Borrowed(sql);
        }
        Cow::Owned(sql.replace("consign.", &format!("{}.", self.schema)))
    }
}

/// How transactions begin that write, and those that read one snapshot.
pub(super) const WRITE: &str = "begin isolation level read committed";
pub(super) const READ: &str = "begin isolation level repeatable read read only";

/// What unqualified names refer to: the server's own objects, and nothing that another role may
/// create. The session's temporary schema comes last, so that it shadows nothing.
macro_rules! search_path {
    () => {
        "search_path = pg_catalog, pg_temp"
    };
}

/// The same as a session option, set before the first statement. A later option of the same name
/// wins, so this one stands last.
pub(super) const PATH_OPTION: &str = "-c search_path=pg_catalog,pg_temp";

/// Begins a transaction in a session that may be shared: behind a pooler, session settings are
/// missing or are another client's.
pub(super) const BEGIN_PINNED: &str = concat!("begin; set local ", search_path!());

/// They keep other roles' objects out, and keep the planner from trusting statistics of a table
/// that was empty a minute ago. The timeouts release a stopped node's locks soon.
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

/// Our settings, for the session, or with `local` for a transaction.
pub(super) fn settings(reach: &str) -> String {
    SETTINGS.map(|setting| format!("set {reach} {setting}")).join("; ")
}

/// Begins a transaction. If the session may be shared, the transaction brings its settings along.
pub(super) fn begin(how: &'static str, own: bool) -> Cow<'static, str> {
    static LOCAL: LazyLock<String> = LazyLock::new(|| settings("local"));
    if own { Cow::Borrowed(how) } else { Cow::Owned(format!("{how}; {}", *LOCAL)) }
}

pub(super) const COMMIT: &str = "commit";
pub(super) const ROLLBACK: &str = "rollback";

/// Statements that run so often that each session prepares them.
pub(super) const FREQUENT: &[&str] = &[
    CLOCK,
    NOW,
    LIVENESS_TOUCH,
    BATCH_SETTINGS_VERSION,
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
    KEY_HOLDERS,
    KEYS_DROP,
    KEY_EXPIRIES_INSERT,
    JOB_UPDATE,
    JOB_DELETE,
    CACHED_JOBS_LOCK,
    ENDED_INSERT,
    JOBS_INSERT,
    FAST_SUBMIT,
    JOBS_START,
    CACHED_JOBS_END,
    EVENTS_INSERT,
    CLAIM_RESULTS,
    CLAIMS_LOCK,
    CLAIM_RESULTS_PUT,
    DUE_LOCK,
    DUE_NEXT,
    OVERDUE_LEASES,
    OVERDUE_EXPIRED,
    NUMBERING_LOCK,
    UNNUMBERED,
    NUMBERING_PUT,
    NUMBERS_INSERT,
    UNNUMBERED_DROP,
    EVENTS,
    INBOX_PEEK,
    INBOX_IDS_OF,
    WORKERS_PUT,
];

statements! {
        "time": CLOCK EVENT_SEQS NOW XACT_STATUS LIVENESS_TOUCH LIVENESS_LOCK LIVENESS_PUT;
        "load": JOBS_LIVE JOBS_ENDED JOBS_READ JOBS_BY_NO ENVELOPES PAYLOAD HISTORY STEPS
        STEPS_COUNT PARENTS_OF_LIVE LIVE_CHILDREN;
        "save": JOBS_INSERT FAST_SUBMIT JOBS_START JOB_UPDATE JOB_DELETE CACHED_JOBS_END CACHED_JOBS_LOCK
        ENDED_INSERT ENDED_UPDATE ENDED_DELETE PAYLOADS_CORRECT HISTORY_INSERT STEPS_PUT STEPS_FORGET
        EVENTS_INSERT;
        "claim": CLAIM_RESULTS CLAIMS_LOCK CLAIM_RESULTS_PUT CLAIMS_OLD DUE_LOCK DUE_NEXT RUNNING;
        "overdue": OVERDUE_LEASES OVERDUE_EXPIRED OVERDUE_RETENTION OVERDUE_PARENTS;
        "keys": KEYS_TAKE KEY_HOLDERS KEYS_LOCK KEYS_SET KEYS_DROP KEY_EXPIRIES_INSERT KEYS_OLD KEYS_OLD_DROP;
        "inbox": INBOX_NEXT INBOX_LOCK INBOX_PEEK INBOX_IDS_OF INBOX_DELETE INBOX_REFUSE
        INBOX_KEYS_DROP;
        "depth": DEPTHS DUE_COUNT DUE_EXPIRED DUE_BEFORE;
        "poison": POISON_COUNTS POISON_FIRST;
        "counters": COUNTS QUEUED ROLL_UP;
        "events": NUMBERING_LOCK UNNUMBERED NUMBERING_PUT NUMBERS_INSERT UNNUMBERED_DROP
        UNNUMBERED_PUT EVENTS EVENT_ENVELOPES OUTBOX_PAGES_LOCK OUTBOX_PAGES_OF OUTBOX_PAGE_FIRST NUMBER_PUT
        NUMBER_DELETE OUTBOX_PAGE_INSERT OUTBOX_PAGE_PUT OUTBOX_PAGE_DELETE;
        "erase": SUBMISSION_DELETE HISTORY_DELETE ERASED_INSERT ERASED_AMONG ERASED_OLD;
        "list": LIST_ALL LIST_QUEUE LIST_SUBJECT LIST_CORRELATION LIST_PARENT LIST_LIVE LIST_RUNNING
        LIST_ENDED LIST_STATUS LIST_ERROR_LIVE LIST_ERROR_ENDED;
        "audit": AUDIT_LOCK AUDIT_INSERT AUDIT_HEAD AUDIT AUDIT_OF;
        "settings": BATCH_SETTINGS_VERSION QUEUE_ADDED BATCH_RECORD_SET CREDENTIAL_SET RECORD_VERSION QUEUES
        QUEUES_INSERT;
        "records": RECORDS_OF_KINDS RECORDS_PUT RECORDS_REMOVE POLICY_PUT;
        "workers": WORKERS WORKERS_OF WORKERS_PUT WORKERS_LEAVE WORKERS_DROP LEASES;
        "nodes": STARTUP_LOCK EPOCH_RAISE LEADER_LOCK LEADER_READ LEADER_PUT NODE_PUT NODES
        NODES_DROP;
}
