//! What can go wrong with a database, and what callers are told.

use super::fast_submit::Unacknowledged;
use crate::{codec::seal::Damage, store::StoreError};
use engine::JobId;
use std::{error::Error, io};
use tokio_postgres::error::SqlState;

/// Something went wrong before a commit was sent: nothing was done.
#[derive(Debug, thiserror::Error)]
pub(super) enum TransactionError {
    #[error("PostgreSQL failed")]
    Sql(#[from] tokio_postgres::Error),
    #[error(transparent)]
    Damage(#[from] Damage),
    #[error("{0}")]
    Impossible(&'static str),
    #[error("no connection could be had")]
    NoConnection(#[source] Option<Box<dyn Error + Send + Sync>>),
    /// Leases have to be extended first; nothing was done.
    #[error("the clock of the database jumped")]
    Jumped,
    /// A job is no longer as this node wrote it, or a claim is not the first of its name; nothing was done.
    #[error("what was taken for granted is not so")]
    Changed,
    /// A job that ended lives again, or one has just begun, and could not be held in its turn; nothing was done.
    #[error("a job moved while it was waited for")]
    Moved,
    /// Jobs that are needed are in the inbox, or were a moment ago.
    #[error("a job that was enqueued by SQL is not taken in yet")]
    InInbox(Vec<JobId>),
    /// Other transactions were in the way of this one again and again; nothing was done.
    #[error("other transactions were in the way again and again")]
    Contended(#[source] Option<Box<TransactionError>>),
    /// New jobs were sent, and nobody answered. They can be looked for, and sent again.
    #[error("the connection broke while jobs were handed over")]
    Unacknowledged(Box<Unacknowledged>),
    /// A commit was sent, and nobody knows what became of it.
    #[error("nobody knows what became of a commit")]
    Unknown(#[source] Box<TransactionError>),
}

impl TransactionError {
    /// The same of something of which nobody can find out whether it was done.
    pub(super) fn unknown(self) -> Self {
        if matches!(self, TransactionError::Unknown(_)) {
            self
        } else {
            TransactionError::Unknown(Box::new(self))
        }
    }

    /// Whether it is about one row, so that the work on others can go on.
    pub(super) fn is_about_a_row(&self) -> bool {
        matches!(self, TransactionError::Damage(_) | TransactionError::Impossible(_))
    }

    /// Whether it comes of what was given or is stored, and would be the same at any other time.
    pub(super) fn is_about_data(&self) -> bool {
        self.is_about_a_row()
            || matches!(self, TransactionError::InInbox(_))
            || self.code().is_some_and(is_about_data)
    }

    /// Whether the same again may well work at once: two transactions were in each other's way.
    pub(super) fn is_a_collision(&self) -> bool {
        let collisions = [SqlState::T_R_DEADLOCK_DETECTED, SqlState::T_R_SERIALIZATION_FAILURE];
        matches!(self, TransactionError::Moved)
            || self.code().is_some_and(|code| collisions.contains(code))
    }

    /// Whether a job was not as this node remembered it.
    pub(super) fn is_a_change(&self) -> bool {
        matches!(self, TransactionError::Changed)
            || self.code().is_some_and(|code| code.code() == CHANGED)
    }

    /// Whether a statement before this one failed, whose answer came while nobody looked. Nothing was done.
    pub(super) fn is_an_echo(&self) -> bool {
        self.code() == Some(&SqlState::IN_FAILED_SQL_TRANSACTION)
    }

    /// Whether a row is there already that was thought to be new.
    pub(super) fn is_a_repeat(&self) -> bool {
        self.code() == Some(&SqlState::UNIQUE_VIOLATION)
    }

    /// Whether the connection broke, or the server did, before anything was committed.
    pub(super) fn is_a_lost_connection(&self) -> bool {
        matches!(self, TransactionError::Sql(_)) && self.is_silence()
    }

    /// Whether the server did not say no: the connection is gone, or somebody ended the session. After a commit
    /// was sent this means that it may have happened.
    pub(super) fn is_silence(&self) -> bool {
        let is_sql = matches!(self, TransactionError::Sql(_));
        matches!(self, TransactionError::NoConnection(_))
            || is_sql && self.code().is_none_or(ends_the_session)
    }

    fn code(&self) -> Option<&SqlState> {
        if let TransactionError::Sql(error) = self { error.code() } else { None }
    }

    /// What a caller is told.
    pub(super) fn told(self) -> StoreError {
        let kind = match &self {
            TransactionError::Damage(_) | TransactionError::Impossible(_) => StoreError::Damaged,
            TransactionError::NoConnection(_)
            | TransactionError::Jumped
            | TransactionError::Changed
            | TransactionError::Moved
            | TransactionError::InInbox(_)
            | TransactionError::Contended(_) => StoreError::Unavailable,
            TransactionError::Unacknowledged(_) | TransactionError::Unknown(_) => {
                StoreError::OutcomeUnknown
            }
            TransactionError::Sql(error) => match error.code() {
                Some(&SqlState::DISK_FULL) => StoreError::Full,
                // Rows that contradict each other: trying again does not help.
                Some(code) if is_about_data(code) => StoreError::Damaged,
                Some(_) | None => StoreError::Unavailable,
            },
        };
        kind(Some(Box::new(self)))
    }
}

/// What `consign.expect` raises.
const CHANGED: &str = "CN001";

/// Class 08 of the standard, connection exceptions, and what PostgreSQL says when it ends a session or itself.
fn ends_the_session(code: &SqlState) -> bool {
    let ends = [
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::CANNOT_CONNECT_NOW,
        SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
    ];
    code.code().starts_with("08") || ends.contains(code)
}

/// Classes 22 and 23 of the standard, data exceptions and broken constraints, and corruption.
fn is_about_data(code: &SqlState) -> bool {
    let class = &code.code()[..2];
    class == "22" || class == "23" || class == "XX"
}

/// Why a database could not be used, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum PostgresError {
    /// The address does not say where the database is.
    #[error("{0}")]
    Address(String),
    /// Nobody answers there, or not as whom we come.
    #[error("the database at {place} cannot be reached")]
    Connect { place: String, source: tokio_postgres::Error },
    /// What protects the connection could not be made.
    #[error("{0}")]
    Tls(String),
    /// The schema was made by a later version.
    #[error(
        "the schema {schema} has version {found}, and this version knows {known}; use the version that made it, or \
         a later one"
    )]
    TooNew { schema: String, found: i64, known: i64 },
    /// There is a schema of this name that is not ours.
    #[error(
        "the schema {schema} is there and holds other tables; name another one in the address, as in ?schema=jobs"
    )]
    NotOurs { schema: String },
    /// Another role could put code of its own in the place of ours.
    #[error(
        "the schema {schema} belongs to the role {owner}, which could replace everything in it; have it handed over \
         (alter schema {schema} owner to the role of the address), or name another one in the address, as in ?schema=jobs"
    )]
    ForeignOwner { schema: String, owner: String },
    /// The database is a copy that only reads.
    #[error("the database at {place} is a standby: nothing can be decided there; name the primary")]
    Standby { place: String },
    /// The tables could not be made.
    #[error("the schema {schema} could not be brought up to date")]
    Migrate { schema: String, source: tokio_postgres::Error },
    /// Another node has been starting for too long.
    #[error(
        "no turn at the schema {schema} could be had: another node has been starting all the time"
    )]
    StartupLock { schema: String, source: tokio_postgres::Error },
    /// What is there cannot be used.
    #[error("the schema {schema} cannot be used as a store")]
    Store { schema: String, source: StoreError },
}

impl PostgresError {
    /// Whether the same may well work in a moment: nobody answers yet, or nobody has time for us.
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

/// A certificate that nobody vouches for is told as data that makes no sense, and stays that.
fn is_passing(error: &tokio_postgres::Error) -> bool {
    let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
    match (error.code(), cause) {
        (Some(code), _) => ends_the_session(code) || *code == SqlState::TOO_MANY_CONNECTIONS,
        (None, Some(cause)) => cause.kind() != io::ErrorKind::InvalidData,
        (None, None) => error.is_closed(),
    }
}
