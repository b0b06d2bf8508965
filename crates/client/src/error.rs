//! Why a request failed or was refused.

use std::{path::PathBuf, time::Duration};
use wire::Problem;

/// Why a request has no good answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The address, the key or the certificate cannot be used.
    #[error("{0}")]
    Setup(String),
    /// No server answers at the address.
    #[error("{address} cannot be reached")]
    Unreachable {
        /// The address.
        address: String,
        /// The Unix socket, if the request went over one.
        socket: Option<PathBuf>,
        /// The error of the system.
        source: reqwest::Error,
    },
    /// The request failed after the client had connected. Its outcome is unknown.
    #[error("the connection to {address} broke before the answer came")]
    Broken {
        /// The address.
        address: String,
        /// The error of the system.
        source: reqwest::Error,
    },
    /// The request was sent, and no answer came in time.
    #[error("{address} did not answer in time")]
    TimedOut {
        /// The address.
        address: String,
    },
    /// The server refused the request, or cannot serve it now.
    #[error("{}", .problem.detail)]
    Refused {
        /// The problem details.
        problem: Box<Problem>,
        /// How long to wait before a retry.
        retry_after: Option<Duration>,
    },
    /// An answer outside the contract.
    #[error("{address} answered {status}, but not as Consign does; is it the right address?")]
    UnexpectedResponse {
        /// The address.
        address: String,
        /// The status of the answer.
        status: u16,
    },
}

impl ClientError {
    /// The problem, where the server refused.
    pub fn problem(&self) -> Option<&Problem> {
        let ClientError::Refused { problem, .. } = self else { return None };
        Some(problem)
    }

    /// The stable code, where the server refused.
    pub fn code(&self) -> Option<&str> {
        self.problem().map(|problem| problem.error_code.as_str())
    }

    /// How long the server asks the caller to wait.
    pub fn retry_after(&self) -> Option<Duration> {
        let ClientError::Refused { retry_after, .. } = self else { return None };
        *retry_after
    }

    /// Whether the same request may get another answer later. Only a request that has a key, a
    /// token or a claim id, or changes nothing, is safe to repeat.
    pub fn is_worth_repeating(&self) -> bool {
        match self {
            ClientError::Setup(_) => false,
            ClientError::Unreachable { .. }
            | ClientError::Broken { .. }
            | ClientError::TimedOut { .. } => true,
            ClientError::Refused { problem, .. } => passes(problem.status),
            // A proxy in front of the server answers for it while it restarts.
            ClientError::UnexpectedResponse { status, .. } => passes(*status),
        }
    }
}

/// Whether a status is about the moment, and not about the request.
fn passes(status: u16) -> bool {
    matches!(status, 408 | 425 | 429 | 500 | 502 | 503 | 504)
}
