//! Why a verb did not do what it was asked.

use engine::{FieldProblem, JobId, Refusal};
use store::StoreError;

/// A lawful no, or the world breaking.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The contract says no. Nothing was done.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The store could not be asked. Nothing was done.
    #[error("the store did not take it")]
    Store(#[source] StoreError),
    /// Nobody knows whether it was done. A repeat with the same key, claim id or token is safe.
    #[error("whether it was done is not known")]
    OutcomeUnknown {
        /// The ids that new jobs would have.
        jobs: Vec<JobId>,
        /// What the store could tell.
        source: StoreError,
    },
}

impl Error {
    /// This failure of a part, where other parts were done: it must not say that nothing was.
    pub(crate) fn after_some(self) -> Self {
        match self {
            Error::Store(source) => Error::OutcomeUnknown { jobs: Vec::new(), source },
            Error::Refused(_) | Error::OutcomeUnknown { .. } => self,
        }
    }
}

impl From<FieldProblem> for Error {
    fn from(problem: FieldProblem) -> Self {
        Error::Refused(problem.into())
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::OutcomeUnknown(_) => {
                Error::OutcomeUnknown { jobs: Vec::new(), source: error }
            }
            StoreError::Unavailable(_) | StoreError::Full(_) | StoreError::Damaged(_) => {
                Error::Store(error)
            }
        }
    }
}
