//! The result of a ready-made handler's attempt.

use rustix::io::Errno;
use std::{io, time::Duration};
use wire::Json;

/// The report on one attempt.
#[derive(Clone, Debug)]
pub struct HandlerOutcome {
    /// How the attempt ended.
    pub ending: HandlerEnding,
    /// A sentence for people, if there is one.
    pub message: Option<String>,
}

/// The ways in which an attempt can end.
#[derive(Clone, Debug)]
pub enum HandlerEnding {
    /// The work is done.
    Completed {
        /// A small result, if there is one; at most as large as the contract allows.
        result: Option<Json>,
    },
    /// A later attempt may succeed.
    Retry {
        /// Why this attempt failed.
        failure: HandlerFailure,
        /// When to try again, if the receiver knows better than the policy.
        after: Option<Duration>,
    },
    /// No attempt can succeed.
    ForGood(HandlerFailure),
    /// The caller stopped the attempt.
    Stopped,
    /// This machine lacks a resource that the attempt needs to begin. That says nothing about the
    /// job.
    NotStarted(HandlerFailure),
}

/// Why the attempt failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandlerFailure {
    /// Stable and for programs; always a valid `errorCode`.
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
    let exhaustion_errors = [Errno::MFILE, Errno::NFILE, Errno::AGAIN, Errno::NOMEM, Errno::NOBUFS];
    Errno::from_io_error(error).is_some_and(|errno| exhaustion_errors.contains(&errno))
}

impl From<HandlerEnding> for HandlerOutcome {
    fn from(ending: HandlerEnding) -> Self {
        HandlerOutcome { ending, message: None }
    }
}
