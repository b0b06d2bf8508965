//! Why nothing was measured.

use std::path::PathBuf;

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
    /// A request was not answered.
    #[error("{0} was not answered")]
    Unanswered(&'static str, #[source] Cause),
    /// Anything else that a run needs and that did not work.
    #[error("{0}")]
    Failed(String, #[source] Cause),
    /// This cannot be measured, or came to something that cannot be.
    #[error("{0}")]
    Unmeasurable(String),
}

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Adds what a run was at.
pub(crate) fn failed<E: Into<Cause>>(doing: &'static str) -> impl Fn(E) -> Error {
    move |source| Error::Failed(doing.into(), source.into())
}

/// Adds what the twin was at.
pub(crate) fn raw<E: Into<Cause>>(doing: &'static str) -> impl Fn(E) -> Error {
    move |source| Error::Failed(format!("the raw twin failed at {doing}"), source.into())
}

/// Adds what the database in which a run makes its schemas was asked for.
pub(crate) fn in_database(doing: &'static str) -> impl Fn(tokio_postgres::Error) -> Error {
    move |source| Error::Failed(format!("{doing} in the database to measure with"), source.into())
}

/// Adds what was asked for.
pub(crate) fn unanswered<E: Into<Cause>>(what: &'static str) -> impl Fn(E) -> Error {
    move |source| Error::Unanswered(what, source.into())
}

/// Makes sure of a count that cannot be wrong.
pub(crate) fn counted(what: &str, expected: usize, found: usize) -> Result<(), Error> {
    if found == expected {
        return Ok(());
    }
    Err(Error::Unmeasurable(format!("{what}: {found} jobs instead of {expected}")))
}
