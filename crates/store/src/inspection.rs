//! What an operator sees of a store: the same types for files and databases.

use engine::AuditHash;
use std::borrow::Cow;

/// The schema that a store has, and the one that this version of Consign writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    /// The schema version of the file or database.
    pub version: i64,
    /// The schema version that this version of Consign writes.
    pub supported_version: i64,
    /// The migrations from `version` to `supported_version`, in order.
    pub missing: Vec<Migration>,
}

impl Schema {
    /// `version`, and the migrations that are missing in it; `to_sql` makes the statements of each.
    pub(crate) fn of(
        version: i64,
        migrations: &'static [(&str, &str)],
        to_sql: impl Fn(&'static str) -> Cow<'static, str>,
    ) -> Self {
        let numbered = (1..).zip(migrations).filter(|(number, _)| *number > version);
        let missing =
            numbered.map(|(number, (name, sql))| Migration { number, name, sql: to_sql(sql) });
        let supported_version = migrations.len() as i64;
        Schema { version, supported_version, missing: missing.collect() }
    }
}

/// One step from a schema to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migration {
    /// The schema that it makes.
    pub number: i64,
    /// Its subject, as a short name.
    pub name: &'static str,
    /// The statements to run.
    pub sql: Cow<'static, str>,
}

/// The result of a check of the whole audit log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditChain {
    /// Every entry is as it was written.
    Whole {
        /// How many there are.
        entries: u64,
        /// The hash of the last entry. Entries cut off at the end are noticed only by comparison
        /// with a head recorded earlier.
        head: AuditHash,
    },
    /// The chain ends before its last entry.
    Broken {
        /// The first entry that is missing or not as it was written.
        number: u64,
    },
}
