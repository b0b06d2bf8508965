//! Why nothing was measured.

use std::{io, path::PathBuf};

/// What stopped a run. The files it made are removed all the same.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A run makes its own files and never touches others.
    #[error(
        "{} is there already, and a benchmark touches nobody's data: name a new file with --store \
         sqlite:<path>, or leave --store away", .0.display()
    )]
    Exists(PathBuf),
    /// The same of schemas.
    #[error(
        "the schema {0} is there already, and a benchmark touches nobody's data: drop it if a run that \
         was killed has left it, or try again"
    )]
    Taken(String),
    /// The server that is measured is started with a file of its own.
    #[error(
        "the door is measured over SQLite: leave --store away or name a file with sqlite:<path>"
    )]
    DoorOfDatabase,
    /// SQLite has no transactions of others to wait for.
    #[error("a transaction can only be held open in PostgreSQL")]
    SoakOfFile,
    /// What was to be open for minutes was not, so that nothing was measured.
    #[error("the transaction that was to be held open was ended by somebody")]
    NotHeld,
    /// A file or folder of ours.
    #[error("{doing} {}", path.display())]
    File {
        /// What was tried.
        doing: &'static str,
        /// Where.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Our store could not be opened.
    #[error("the store to be measured cannot be opened")]
    Open(#[from] store::OpenError),
    /// The same in a database.
    #[error("the store to be measured cannot be opened")]
    OpenPostgres(#[from] store::PostgresError),
    /// A verb of ours failed.
    #[error("{doing}")]
    Verb {
        /// What was tried.
        doing: &'static str,
        /// Why not.
        source: platform::Error,
    },
    /// The workers could not be started.
    #[error("starting the workers")]
    Workers(#[from] worker::StartError),
    /// A job was not settled as completed.
    #[error("a job was not settled: {0}")]
    Unsettled(String),
    /// The hand-written twin failed.
    #[error("the raw twin failed at {doing}")]
    Raw {
        /// What was tried.
        doing: &'static str,
        /// Why not.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// There is no way to the database in which a run would make its schemas.
    #[error("the database to measure with cannot be reached")]
    Connect(#[source] store::PostgresError),
    /// The database in which a run makes its schemas did not do what it was asked for.
    #[error("{doing} in the database to measure with")]
    Database {
        /// What was tried.
        doing: &'static str,
        /// Why not.
        source: tokio_postgres::Error,
    },
    /// A count that cannot be wrong was.
    #[error("{what}: {found} jobs instead of {expected}")]
    Miscounted {
        /// Of what.
        what: &'static str,
        /// How many there should be.
        expected: usize,
        /// How many there were.
        found: usize,
    },
    /// Nothing happened for so long that nothing will.
    #[error("no job was settled for {0} s; {1} of {2} were, so the run was given up")]
    Stuck(u64, usize, usize),
    /// A thread or a task of ours could not be started, or ended early.
    #[error("{0}")]
    Tasks(&'static str, #[source] Box<dyn std::error::Error + Send + Sync>),
    /// The system does not tell what we ask.
    #[error("{0} does not say how much memory was used; this needs Linux")]
    Memory(String),
    /// A process that is measured did not start, or is gone.
    #[error("{what} is not at work: {said}")]
    Process {
        /// Which one.
        what: &'static str,
        /// The last that it said.
        said: String,
    },
    /// A request was not answered.
    #[error("{0} was not answered")]
    Unanswered(&'static str, #[source] Box<dyn std::error::Error + Send + Sync>),
    /// A request was answered with something else than was asked for.
    #[error("{what} was answered with {status}: {body}")]
    Answer {
        /// What was asked for.
        what: &'static str,
        /// The status of the answer.
        status: u16,
        /// What it said.
        body: String,
    },
}

/// Adds what a verb was for.
pub(crate) fn verb(doing: &'static str) -> impl Fn(platform::Error) -> Error {
    move |source| Error::Verb { doing, source }
}

/// Adds what the twin was at.
pub(crate) fn raw<E>(doing: &'static str) -> impl Fn(E) -> Error
where
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    move |source| Error::Raw { doing, source: source.into() }
}
