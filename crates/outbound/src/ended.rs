//! How a ready-made handler's errand ended.

use rustix::io::Errno;
use std::{io, time::Duration};
use wire::Json;

/// What is reported of one attempt.
#[derive(Clone, Debug)]
pub struct HandlerOutcome {
    /// How it ended.
    pub how: HandlerEnding,
    /// A sentence for people, if there is one.
    pub message: Option<String>,
}

/// The ways in which an errand ends.
#[derive(Clone, Debug)]
pub enum HandlerEnding {
    /// The work is done.
    Completed {
        /// A small result, if there is one; at most as large as the contract allows.
        result: Option<Json>,
    },
    /// It may work another time.
    Retry {
        /// Why it did not work this time.
        failure: HandlerFailure,
        /// When it should be tried again, if the other side knows better than the policy.
        after: Option<Duration>,
    },
    /// It will never work.
    ForGood(HandlerFailure),
    /// It was asked to stop, and stopped.
    Stopped,
    /// This machine lacks what is needed to begin. That says nothing about the job.
    NotStarted(HandlerFailure),
}

/// Why it did not work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandlerFailure {
    /// Stable and made for programs; always a lawful `errorCode`.
    pub code: String,
    /// For people.
    pub message: String,
}

impl HandlerOutcome {
    pub(crate) fn retry(code: &str, message: impl Into<String>) -> Self {
        HandlerEnding::Retry { failure: HandlerFailure::new(code, message), after: None }.into()
    }

    pub(crate) fn for_good(code: &str, message: impl Into<String>) -> Self {
        HandlerEnding::ForGood(HandlerFailure::new(code, message)).into()
    }
}

impl HandlerFailure {
    pub(crate) fn new(code: &str, message: impl Into<String>) -> Self {
        HandlerFailure { code: code.into(), message: message.into() }
    }
}

/// Whether this machine, or this process, has no more descriptors, processes or memory.
pub(crate) fn is_exhausted(error: &io::Error) -> bool {
    let lacks = [Errno::MFILE, Errno::NFILE, Errno::AGAIN, Errno::NOMEM, Errno::NOBUFS];
    Errno::from_io_error(error).is_some_and(|errno| lacks.contains(&errno))
}

impl From<HandlerEnding> for HandlerOutcome {
    fn from(how: HandlerEnding) -> Self {
        HandlerOutcome { how, message: None }
    }
}
