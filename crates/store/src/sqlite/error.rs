//! What can go wrong with a file, and what callers are told.

use super::seal::Damage;
use crate::store::StoreError;
use rusqlite::ErrorCode;
use std::{
    io,
    path::{Path, PathBuf},
};

/// Something went wrong before a commit: nothing was done.
#[derive(Debug, thiserror::Error)]
pub(super) enum TransactionError {
    #[error("SQLite failed")]
    Sql(#[from] rusqlite::Error),
    #[error(transparent)]
    Damage(#[from] Damage),
    #[error("{0}")]
    Impossible(&'static str),
    #[error("somebody else reads it")]
    Busy,
}

impl TransactionError {
    /// Whether the file is something else altogether.
    pub(super) fn is_no_database(&self) -> bool {
        let code = Some(ErrorCode::NotADatabase);
        matches!(self, TransactionError::Sql(error) if error.sqlite_error_code() == code)
    }

    /// Whether it is about one row, so that the work on others can go on.
    pub(super) fn is_about_a_row(&self) -> bool {
        matches!(self, TransactionError::Damage(_) | TransactionError::Impossible(_))
    }

    /// What a caller is told, where nothing was committed.
    pub(super) fn told(self) -> StoreError {
        let kind = match &self {
            TransactionError::Damage(_) | TransactionError::Impossible(_) => StoreError::Damaged,
            TransactionError::Busy => StoreError::Unavailable,
            TransactionError::Sql(error) => match error.sqlite_error_code() {
                Some(ErrorCode::DiskFull) => StoreError::Full,
                // A constraint is about rows that contradict each other: trying again does not help.
                Some(
                    ErrorCode::DatabaseCorrupt
                    | ErrorCode::NotADatabase
                    | ErrorCode::ConstraintViolation,
                ) => StoreError::Damaged,
                Some(_) => StoreError::Unavailable,
                // Not SQLite's: a column that cannot be what it is.
                None => StoreError::Damaged,
            },
        };
        kind(Some(Box::new(self)))
    }
}

/// Why a store could not be opened, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Somebody else has it.
    #[error(
        "{} is in use by {holder}; stop that process first, or choose another store \
         (one file, one process)",
        path.display()
    )]
    InUse {
        /// Which file.
        path: PathBuf,
        /// Who: process, machine, since when.
        holder: String,
    },
    /// It was written by something else.
    #[error("{} is not a store of Consign", path.display())]
    NotOurs {
        /// Which file.
        path: PathBuf,
    },
    /// It was written by a later version.
    #[error(
        "{} has schema {found}, and this version knows {known}; use the version that wrote it, \
         or a later one (unless the file is damaged)",
        path.display()
    )]
    TooNew {
        /// Which file.
        path: PathBuf,
        /// What it has.
        found: i64,
        /// What we know.
        known: i64,
    },
    /// The log has rotted: transactions that were acknowledged cannot be read any more.
    #[error(
        "{} is damaged, and at least {} acknowledged transactions behind the damage would be \
         forgotten; restore the last backup",
        path.display(), commits - 1
    )]
    LogDamaged {
        /// The log.
        path: PathBuf,
        /// How many lie behind the damage. One of them may have been under way.
        commits: u64,
    },
    /// What is there must not be written over.
    #[error("{} exists already, and is not written over; move it away first", path.display())]
    Exists {
        /// Which file.
        path: PathBuf,
    },
    /// A copy could not be made; nothing is left of it.
    #[error("no copy could be made at {}", path.display())]
    NotCopied {
        /// Where it should have been.
        path: PathBuf,
        /// Why.
        source: StoreError,
    },
    /// What should be copied is damaged, and a copy would be, too.
    #[error("{} is damaged: {what}; use an older backup", path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// Another user, or a link, decides what this file is.
    #[error("{} {why}", path.display())]
    Untrusted {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it, and what mends it.
        why: String,
    },
    /// The file system said no.
    #[error("{} cannot be opened", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file could not be read as a store.
    #[error("{} cannot be used as a store", path.display())]
    Store {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: StoreError,
    },
}

impl OpenError {
    /// Why the file at `path` is of no use to us.
    pub(super) fn unusable(path: &Path, trouble: TransactionError) -> Self {
        let path = path.to_owned();
        if trouble.is_no_database() {
            return OpenError::NotOurs { path };
        }
        OpenError::Store { path, source: trouble.told() }
    }
}
