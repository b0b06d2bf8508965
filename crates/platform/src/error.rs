//! Why a verb failed.

use engine::{FieldProblem, JobId, Refusal};
use store::StoreError;

/// A refusal, or a failure of the store.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The contract refuses the request. Nothing was done.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The store does not answer. Nothing was done.
    #[error("the store did not execute the request")]
    Store(#[source] StoreError),
    /// It is unknown whether the request was executed. A repeat with the same key, claim id or
    /// token is safe.
    #[error("it is unknown whether the request was executed")]
    OutcomeUnknown {
        /// The ids that the new jobs have if they were stored.
        jobs: Vec<JobId>,
        /// The error of the store.
        source: StoreError,
    },
}

impl Error {
    /// The same failure after earlier parts of the request were executed: it must not claim that
    /// nothing was done.
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
