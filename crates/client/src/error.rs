//! Why there is no answer, or not the one that was hoped for.

use std::{path::PathBuf, time::Duration};
use wire::Problem;

/// Why a request came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The address, the key or the certificate cannot be used.
    #[error("{0}")]
    Setup(String),
    /// Nobody is there.
    #[error("{address} cannot be reached")]
    Unreachable {
        /// Where it was looked for.
        address: String,
        /// The Unix socket by which it was looked for, if it was one.
        socket: Option<PathBuf>,
        /// What the system said.
        source: reqwest::Error,
    },
    /// It was asked, and nobody knows what came of it.
    #[error("the connection to {address} broke before the answer came")]
    Broken {
        /// Who was asked.
        address: String,
        /// What the system said.
        source: reqwest::Error,
    },
    /// It was asked, and no answer came in time.
    #[error("{address} did not answer in time")]
    TimedOut {
        /// Who was asked.
        address: String,
    },
    /// The contract says no, or cannot say yes now.
    #[error("{}", .problem.detail)]
    Refused {
        /// The no.
        problem: Box<Problem>,
        /// When it is worth asking again.
        retry_after: Option<Duration>,
    },
    /// An answer that is not in the words of the contract.
    #[error("{address} answered {status}, but not as Consign does; is it the right address?")]
    Strange {
        /// Who was asked.
        address: String,
        /// The status of the answer.
        status: u16,
    },
}

impl ClientError {
    /// The problem, where the contract said no.
    pub fn problem(&self) -> Option<&Problem> {
        let ClientError::Refused { problem, .. } = self else { return None };
        Some(problem)
    }

    /// The stable code, where the contract said no.
    pub fn code(&self) -> Option<&str> {
        self.problem().map(|problem| problem.error_code.as_str())
    }

    /// How long the server asks to be left alone.
    pub fn retry_after(&self) -> Option<Duration> {
        let ClientError::Refused { retry_after, .. } = self else { return None };
        *retry_after
    }

    /// Whether the same request may be answered otherwise a moment later. It is only safe to repeat what has a key,
    /// a token or a claim's name, or changes nothing.
    pub fn is_worth_repeating(&self) -> bool {
        match self {
            ClientError::Setup(_) => false,
            ClientError::Unreachable { .. }
            | ClientError::Broken { .. }
            | ClientError::TimedOut { .. } => true,
            ClientError::Refused { problem, .. } => passes(problem.status),
            // What stands in front of a server speaks for it while it restarts.
            ClientError::Strange { status, .. } => passes(*status),
        }
    }
}

/// Whether a status is about now, and not about the request.
fn passes(status: u16) -> bool {
    matches!(status, 408 | 425 | 429 | 500 | 502 | 503 | 504)
}
