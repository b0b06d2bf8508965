//! The stores of Consign: where jobs are kept between one decision and the next.
//!
//! [`Store`] is the whole interface for the other crates. [`Memory`] is its executable
//! specification, and the conformance suite says what every store must keep. No store knows a rule:
//! what may happen to a job is `engine::decide`.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(all(feature = "postgres", feature = "sqlite")),
    allow(dead_code, unused_imports, reason = "no store uses all that the stores share")
)]
#![cfg_attr(test, allow(clippy::wildcard_enum_match_arm, reason = "a test may"))]

mod clock;
mod codec;
#[cfg(test)]
mod conformance;
mod cursor;
mod dedicated_thread;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod index_choice;
mod inspection;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod job_cache;
mod memory;
#[cfg(test)]
mod model;
mod node;
mod oneshot;
#[cfg(feature = "postgres")]
mod postgres;
mod queue;
mod random;
mod record;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod statements;
mod store;
#[doc(hidden)]
pub mod sync;
#[cfg(test)]
mod test_settings;
#[cfg(any(test, feature = "testing"))]
mod testing;
mod unit_of_work;
mod workers;

pub use clock::{Clock, Reading, StoreClock};
pub use cursor::Cursor;
pub use dedicated_thread::DedicatedThread;
pub use inspection::{AuditChain, Migration, Schema};
pub use memory::{Backup, Memory, Rules};
pub use node::{
    ClusterView, LEADERSHIP_FOR, NODE_HEARTBEAT_EVERY, NODE_LOST_AFTER, NODES_KEPT, NodeInfo,
    NodeStatus, Notification, SETTINGS_TRUSTED_FOR, UnconfirmedNode,
};
pub use oneshot::{OneshotReceiver, OneshotSender, SenderDropped, oneshot};
#[cfg(feature = "postgres")]
pub use postgres::{
    Creator, LongTransaction, Postgres, PostgresAddress, PostgresError, PostgresHealth,
    PostgresOptions, StartupLock, examine_postgres, migrate_postgres, postgres_schema,
    verify_postgres_audit,
};
pub use queue::{Counts, Queue, QueueDepth, WorkerSeen};
pub use random::RandomSource;
pub use record::{Record, RecordBody, RecordChange, RecordKind, RecordName, WEBHOOK_KEY};
#[cfg(feature = "sqlite")]
pub use sqlite::{
    FailStop, Finding, Health, OpenError, Options, Sqlite, backup, examine, migrate, read_records,
    restore, schema, verify_audit,
};
pub use store::{
    Answer, Claimed, EVENTS_KEPT, Execute, NumberedEvent, Overdue, PAGE_MAX, POISON_CODES_MAX,
    Page, PoisonCounts, Query, Reply, Request, Store, StoreError, Upcoming, WORKERS_KEPT,
};
#[cfg(any(test, feature = "testing"))]
pub use testing::{FaultInjector, ManualClock, SeededRandom};
#[cfg(all(feature = "postgres", any(test, feature = "testing")))]
pub use testing::{control_clock, wipe};
