//! Why a run measured nothing.

use std::path::PathBuf;

/// What stopped a run. The files that it made are removed all the same.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A run creates its own files and never touches others.
    #[error(
        "{} is there already, and a benchmark touches no existing data: name a new file with --store \
         sqlite:<path>, or leave --store away", .0.display()
    )]
    Exists(PathBuf),
    /// The same for schemas.
    #[error(
        "the schema {0} is there already, and a benchmark touches no existing data: drop it if a run that \
         was killed has left it, or try again"
    )]
    SchemaExists(String),
    /// The server did not answer a request.
    #[error("{0} was not answered")]
    Unanswered(&'static str, #[source] Cause),
    /// Any other step of a run that failed.
    #[error("{0}")]
    Failed(String, #[source] Cause),
    /// This cannot be measured, or the result is not usable.
    #[error("{0}")]
    Unmeasurable(String),
}

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Adds what the run was doing.
pub(crate) fn failed<E: Into<Cause>>(doing: &'static str) -> impl Fn(E) -> Error {
    move |source| Error::Failed(doing.into(), source.into())
}

/// Adds what the raw side was doing.
pub(crate) fn raw<E: Into<Cause>>(doing: &'static str) -> impl Fn(E) -> Error {
    move |source| Error::Failed(format!("the raw twin failed at {doing}"), source.into())
}

/// Adds what the run asked of the database that holds its schemas.
pub(crate) fn in_database(doing: &'static str) -> impl Fn(tokio_postgres::Error) -> Error {
    move |source| Error::Failed(format!("{doing} in the database to measure with"), source.into())
}

pub(crate) fn unanswered<E: Into<Cause>>(what: &'static str) -> impl Fn(E) -> Error {
    move |source| Error::Unanswered(what, source.into())
}

/// Checks a count that must be exact.
pub(crate) fn check_count(what: &str, expected: usize, found: usize) -> Result<(), Error> {
    if found == expected {
        return Ok(());
    }
    Err(Error::Unmeasurable(format!("{what}: {found} jobs instead of {expected}")))
}
