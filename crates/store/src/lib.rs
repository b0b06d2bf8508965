//! THE MEMORY of Consign: where jobs live between one decision and the next.
//!
//! [`Store`] is the whole of what the rest of the house may ask. [`Memory`] is its executable
//! specification; the conformance suite says what every store has to keep. No store knows a rule:
//! what may happen to a job is `engine::decide`.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(all(feature = "postgres", feature = "sqlite")),
    allow(dead_code, unused_imports, reason = "no store uses all that the stores share")
)]
#![cfg_attr(test, allow(clippy::wildcard_enum_match_arm, reason = "a test may"))]

#[cfg(any(test, feature = "testing"))]
mod by_hand;
mod clock;
#[cfg(test)]
mod conformance;
mod cursor;
mod dice;
mod form;
mod inspection;
mod keeper;
mod memory;
#[cfg(test)]
mod model;
mod node;
#[cfg(feature = "postgres")]
mod postgres;
mod promise;
mod queue;
mod record;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod remembered;
mod seen;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod statements;
mod store;
#[doc(hidden)]
pub mod sync;
#[cfg(test)]
mod test_settings;
mod unit_of_work;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod way;

#[cfg(any(test, feature = "testing"))]
pub use by_hand::{FaultInjector, HandClock, SeededDice};
#[cfg(all(feature = "postgres", any(test, feature = "testing")))]
pub use by_hand::{take_the_clock, wipe};
pub use clock::{Clock, Reading, StoreClock};
pub use cursor::Cursor;
pub use dice::Dice;
pub use inspection::{AuditChain, Migration, Schema};
pub use keeper::Keeper;
pub use memory::{Backup, Memory, Rules};
pub use node::{
    ATTEND_EVERY, Attendance, LEADS_FOR, NODE_LOST_AFTER, NODES_KEPT, News, NodeCard, NodeSeen,
    SETTINGS_TRUSTED_FOR, UnconfirmedNode,
};
#[cfg(feature = "postgres")]
pub use postgres::{
    Creator, LongTransaction, Postgres, PostgresAddress, PostgresError, PostgresHealth,
    PostgresOptions, Turn, examine_postgres, migrate_postgres, postgres_schema,
    verify_postgres_audit,
};
pub use promise::{Awaited, Broken, Promise, promise};
pub use queue::{Counts, Queue, QueueDepth, WorkerSeen};
pub use record::{Pause, Record, RecordBody, RecordChange, RecordKind, RecordName};
#[cfg(feature = "sqlite")]
pub use sqlite::{
    FailStop, Finding, Health, OpenError, Options, Sqlite, backup, examine, migrate, restore,
    schema, verify_audit,
};
pub use store::{
    Answer, Claimed, EVENTS_KEPT, Execute, NumberedEvent, Overdue, PAGE_MAX, POISON_CODES_MAX,
    Page, PoisonCounts, Query, Reply, Request, Store, StoreError, Upcoming, WORKERS_KEPT,
};
