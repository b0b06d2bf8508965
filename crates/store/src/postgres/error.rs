//! What can go wrong with a database, and which errors callers get.

use super::fast_submit::Unacknowledged;
use crate::{codec::seal::Damage, store::StoreError};
use engine::JobId;
use std::{error::Error, io};
use tokio_postgres::error::SqlState;

/// What the steps of a transaction return.
pub(super) type Result<T, E = TransactionError> = std::result::Result<T, E>;

/// Why a transaction failed. Unless a variant says otherwise, nothing was committed.
#[derive(Debug, thiserror::Error)]
pub(super) enum TransactionError {
    #[error("PostgreSQL failed")]
    Sql(#[from] tokio_postgres::Error),
    #[error(transparent)]
    Damage(#[from] Damage),
    #[error("{0}")]
    Inconsistent(&'static str),
    #[error("no connection to the database is free, or none can be opened")]
    NoConnection(#[source] Option<Box<dyn Error + Send + Sync>>),
    /// The node must extend leases first; nothing was done.
    #[error("the clock of the database jumped")]
    ClockJumped,
    /// A job is not as this node last wrote it, settings have changed, or a claim is a repetition;
    /// nothing was done.
    #[error("a cached row or setting is out of date")]
    StaleCache,
    /// A job was redriven or has just begun, so it could not be locked in the common order; nothing
    /// was done.
    #[error("a job became live while a transaction waited for its lock")]
    LockOrder,
    /// Jobs that the batch needs are in the inbox, or were a moment ago.
    #[error("a job that was enqueued by SQL is still in the inbox")]
    InInbox(Vec<JobId>),
    /// Other transactions locked or changed the same rows in every attempt; nothing was done.
    #[error("other transactions locked or changed the same rows in every attempt")]
    Contended(#[source] Option<Box<TransactionError>>),
    /// New jobs were sent, and no answer came. They can be looked up and sent again.
    #[error("the connection broke while jobs were submitted")]
    Unacknowledged(Box<Unacknowledged>),
    /// A commit was sent, and its outcome is unknown.
    #[error("the outcome of a commit is unknown")]
    Unknown(#[source] Box<TransactionError>),
}

impl TransactionError {
    /// Marks the error as one whose outcome cannot be determined.
    pub(super) fn unknown(self) -> Self {
        if matches!(self, TransactionError::Unknown(_)) {
            self
        } else {
            TransactionError::Unknown(Box::new(self))
        }
    }

    /// Whether the error concerns one row, so that work on other rows can go on.
    pub(super) fn is_about_a_row(&self) -> bool {
        matches!(self, TransactionError::Damage(_) | TransactionError::Inconsistent(_))
    }

    /// Whether the error comes from the request or from stored data, and would be the same at any
    /// time.
    pub(super) fn is_about_data(&self) -> bool {
        self.is_about_a_row()
            || matches!(self, TransactionError::InInbox(_))
            || self.code().is_some_and(is_about_data)
    }

    /// Whether a retry is likely to succeed: two transactions met in each other's locks.
    pub(super) fn is_collision(&self) -> bool {
        let collisions = [SqlState::T_R_DEADLOCK_DETECTED, SqlState::T_R_SERIALIZATION_FAILURE];
        matches!(self, TransactionError::LockOrder)
            || self.code().is_some_and(|code| collisions.contains(code))
    }

    /// Whether a cached row or setting was out of date.
    pub(super) fn is_stale_cache(&self) -> bool {
        matches!(self, TransactionError::StaleCache)
            || self.code().is_some_and(|code| code.code() == STALE_CACHE)
    }

    /// Whether an earlier statement failed whose answer was not read. Nothing was done.
    pub(super) fn is_aborted_transaction(&self) -> bool {
        self.code() == Some(&SqlState::IN_FAILED_SQL_TRANSACTION)
    }

    /// Whether a row exists already that this node took to be new.
    pub(super) fn is_duplicate_row(&self) -> bool {
        self.code() == Some(&SqlState::UNIQUE_VIOLATION)
    }

    /// Whether the connection or the server broke before anything was committed.
    pub(super) fn is_connection_lost(&self) -> bool {
        matches!(self, TransactionError::Sql(_)) && self.is_unanswered()
    }

    /// Whether the server did not answer: the connection is gone, or the session was ended. After a
    /// commit was sent, the commit may have happened.
    pub(super) fn is_unanswered(&self) -> bool {
        let is_sql = matches!(self, TransactionError::Sql(_));
        matches!(self, TransactionError::NoConnection(_))
            || is_sql && self.code().is_none_or(ends_the_session)
    }

    fn code(&self) -> Option<&SqlState> {
        if let TransactionError::Sql(error) = self { error.code() } else { None }
    }

    /// The error that a caller gets.
    pub(super) fn into_store_error(self) -> StoreError {
        let kind = match &self {
            TransactionError::Damage(_) | TransactionError::Inconsistent(_) => StoreError::Damaged,
            TransactionError::NoConnection(_)
            | TransactionError::ClockJumped
            | TransactionError::StaleCache
            | TransactionError::LockOrder
            | TransactionError::InInbox(_)
            | TransactionError::Contended(_) => StoreError::Unavailable,
            TransactionError::Unacknowledged(_) | TransactionError::Unknown(_) => {
                StoreError::OutcomeUnknown
            }
            TransactionError::Sql(error) => match error.code() {
                Some(&SqlState::DISK_FULL) => StoreError::Full,
                // Rows contradict each other, so a retry does not help.
                Some(code) if is_about_data(code) => StoreError::Damaged,
                Some(_) | None => StoreError::Unavailable,
            },
        };
        kind(Some(Box::new(self)))
    }
}

/// The SQLSTATE that `consign.expect` raises.
const STALE_CACHE: &str = "CN001";

/// SQLSTATE class 08, connection exceptions, and the codes with which PostgreSQL ends a session or
/// itself.
fn ends_the_session(code: &SqlState) -> bool {
    let ends = [
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::CANNOT_CONNECT_NOW,
        SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
    ];
    code.code().starts_with("08") || ends.contains(code)
}

/// SQLSTATE classes 22 and 23, data exceptions and constraint violations, and XX, corruption.
fn is_about_data(code: &SqlState) -> bool {
    let class = &code.code()[..2];
    class == "22" || class == "23" || class == "XX"
}

/// Why a database cannot be used, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum PostgresError {
    /// The address does not say where the database is.
    #[error("{0}")]
    Address(String),
    /// No server answers at the address, or it refuses the role.
    #[error("the database at {database} cannot be reached")]
    Connect { database: String, source: tokio_postgres::Error },
    /// The TLS configuration is not usable.
    #[error("{0}")]
    Tls(String),
    /// A later version of Consign created the schema.
    #[error(
        "the schema {schema} has version {found}, and this version knows {known}; use the version that made it, or \
         a later one"
    )]
    TooNew { schema: String, found: i64, known: i64 },
    /// A schema of this name exists that is not ours.
    #[error(
        "the schema {schema} exists and has tables that are not Consign's; name another one in the address, as in \
         ?schema=jobs"
    )]
    NotOurs { schema: String },
    /// Another role could replace our functions by its own.
    #[error(
        "the schema {schema} belongs to the role {owner}, which could replace everything in it; transfer it \
         (alter schema {schema} owner to the role of the address), or name another one in the address, as in ?schema=jobs"
    )]
    ForeignOwner { schema: String, owner: String },
    /// The database is a standby, which only reads.
    #[error(
        "the database at {database} is a standby, which cannot be written; name the primary in the address"
    )]
    Standby { database: String },
    /// The migrations failed.
    #[error("the schema {schema} could not be brought up to date")]
    Migrate { schema: String, source: tokio_postgres::Error },
    /// The start-up lock could not be taken: another node has been starting for too long.
    #[error(
        "the start-up lock of the schema {schema} could not be taken: another node has been starting for too long"
    )]
    StartupLock { schema: String, source: tokio_postgres::Error },
    /// The content of the schema cannot be used.
    #[error("the schema {schema} cannot be used as a store")]
    Store { schema: String, source: StoreError },
}

impl PostgresError {
    /// Whether a retry may succeed soon: the server does not answer yet, or has no free connection.
    pub fn may_pass(&self) -> bool {
        match self {
            PostgresError::Connect { source, .. }
            | PostgresError::Migrate { source, .. }
            | PostgresError::StartupLock { source, .. } => is_passing(source),
            PostgresError::Store { source: StoreError::Unavailable(_), .. } => true,
            PostgresError::Address(_)
            | PostgresError::Tls(_)
            | PostgresError::TooNew { .. }
            | PostgresError::NotOurs { .. }
            | PostgresError::ForeignOwner { .. }
            | PostgresError::Standby { .. }
            | PostgresError::Store { .. } => false,
        }
    }
}

/// Whether a connection error is temporary. An untrusted certificate is reported as `InvalidData`,
/// and is not.
fn is_passing(error: &tokio_postgres::Error) -> bool {
    let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
    match (error.code(), cause) {
        (Some(code), _) => ends_the_session(code) || *code == SqlState::TOO_MANY_CONNECTIONS,
        (None, Some(cause)) => cause.kind() != io::ErrorKind::InvalidData,
        (None, None) => error.is_closed(),
    }
}
