//! What can go wrong with a file, and which errors callers get.

use super::seal::Damage;
use crate::store::StoreError;
use rusqlite::ErrorCode;
use std::{
    io,
    path::{Path, PathBuf},
};

/// What the steps of a transaction return.
pub(super) type Result<T, E = TransactionError> = std::result::Result<T, E>;

/// A failure before the commit: nothing was done.
#[derive(Debug, thiserror::Error)]
pub(super) enum TransactionError {
    #[error("SQLite failed")]
    Sql(#[from] rusqlite::Error),
    #[error(transparent)]
    Damage(#[from] Damage),
    #[error("{0}")]
    /// Stored rows contradict each other, so that no version of Consign can have written them.
    Inconsistent(&'static str),
    #[error("another connection reads it")]
    Busy,
}

impl TransactionError {
    /// Whether the file is no SQLite database.
    pub(super) fn is_no_database(&self) -> bool {
        let code = Some(ErrorCode::NotADatabase);
        matches!(self, TransactionError::Sql(error) if error.sqlite_error_code() == code)
    }

    /// Whether the error concerns one row only, so that work on other rows can go on.
    pub(super) fn is_about_a_row(&self) -> bool {
        matches!(self, TransactionError::Damage(_) | TransactionError::Inconsistent(_))
    }

    /// The error for the caller, when nothing was committed.
    pub(super) fn into_store_error(self) -> StoreError {
        let kind = match &self {
            TransactionError::Damage(_) | TransactionError::Inconsistent(_) => StoreError::Damaged,
            TransactionError::Busy => StoreError::Unavailable,
            TransactionError::Sql(error) => match error.sqlite_error_code() {
                Some(ErrorCode::DiskFull) => StoreError::Full,
                // Rows contradict each other: trying again does not help.
                Some(
                    ErrorCode::DatabaseCorrupt
                    | ErrorCode::NotADatabase
                    | ErrorCode::ConstraintViolation,
                ) => StoreError::Damaged,
                Some(_) => StoreError::Unavailable,
                // Not from SQLite: a column has an impossible type or value.
                None => StoreError::Damaged,
            },
        };
        kind(Some(Box::new(self)))
    }
}

/// Why a store could not be opened, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum OpenError {
    /// Another process has the store open.
    #[error(
        "{} is in use by {holder}; stop that process first, or choose another store \
         (one file, one process)",
        path.display()
    )]
    InUse {
        path: PathBuf,
        /// That process: process, machine, since when.
        holder: String,
    },
    /// Another program wrote the file.
    #[error("{} is not a store of Consign", path.display())]
    NotOurs { path: PathBuf },
    /// A later version wrote the store.
    #[error(
        "{} has schema {version}, and this version of Consign supports {supported_version}; use the \
         version that wrote it, or a later one (unless the file is damaged)",
        path.display()
    )]
    TooNew {
        path: PathBuf,
        version: i64,
        /// The newest schema version that this program supports.
        supported_version: i64,
    },
    /// The log is damaged: acknowledged transactions cannot be read any more.
    #[error(
        "{} is damaged, and at least {} acknowledged transactions behind the damage would be \
         forgotten; restore the last backup",
        path.display(), commits - 1
    )]
    LogDamaged {
        path: PathBuf,
        /// How many commits lie behind the damage. The last one may have been unfinished.
        commits: u64,
    },
    /// The target exists and is not overwritten.
    #[error("{} exists already and is not overwritten; move it away first", path.display())]
    Exists { path: PathBuf },
    /// A copy could not be made, and nothing of it is left.
    #[error("no copy could be made at {}", path.display())]
    NotCopied { path: PathBuf, source: StoreError },
    /// The source of the copy is damaged, and the copy would be, too.
    #[error("{} is damaged: {what}; use an older backup", path.display())]
    Damaged { path: PathBuf, what: String },
    /// Another user or a link controls this file.
    #[error("{} {reason}", path.display())]
    Untrusted {
        path: PathBuf,
        /// What is wrong with it, and what repairs it.
        reason: String,
    },
    /// The file system reported an error.
    #[error("{} cannot be opened", path.display())]
    File { path: PathBuf, source: io::Error },
    /// The file could not be read as a store.
    #[error("{} cannot be used as a store", path.display())]
    Store { path: PathBuf, source: StoreError },
}

impl OpenError {
    /// Why the file at `path` cannot be used.
    pub(super) fn unusable(path: &Path, error: TransactionError) -> Self {
        let path = path.to_owned();
        if error.is_no_database() {
            return OpenError::NotOurs { path };
        }
        OpenError::Store { path, source: error.into_store_error() }
    }
}
