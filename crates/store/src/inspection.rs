//! What an operator is told of a store in files or in a database, in the same words for both.

use engine::AuditHash;
use std::borrow::Cow;

/// Which schema a store has, and which this version writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    /// The one of the file.
    pub found: i64,
    /// The one of this version.
    pub known: i64,
    /// What lies between the two, in order.
    pub missing: Vec<Migration>,
}

/// One step from a schema to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migration {
    /// The schema that it makes.
    pub number: i64,
    /// What it is about.
    pub name: &'static str,
    /// What is run.
    pub sql: Cow<'static, str>,
}

/// What a walk along the whole audit log came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditChain {
    /// Every entry stands as it was written.
    Whole {
        /// How many there are.
        entries: u64,
        /// The hash of the last one. Entries that were cut off at the end are missed only by who
        /// knows it from before.
        head: AuditHash,
    },
    /// The chain ends before its last entry.
    Broken {
        /// The first entry that is missing or not as it was written.
        number: u64,
    },
}
