//! Exit codes, for programs that start a command.

use std::process::ExitCode;
use thiserror::Error;

/// The request was refused, or it failed.
pub(crate) const REFUSED: u8 = 1;
/// The arguments make no sense.
pub(crate) const USAGE: u8 = 2;
/// The awaited job ended otherwise than `Completed`.
pub(crate) const ENDED_OTHERWISE: u8 = 3;
/// No server could be reached.
pub(crate) const UNREACHABLE: u8 = 4;

/// The exit code for an ended job.
pub(crate) fn exit_code_of(status: &str) -> ExitCode {
    match status {
        "Completed" => ExitCode::SUCCESS,
        _ => ExitCode::from(ENDED_OTHERWISE),
    }
}

/// Arguments that make no sense, found after clap has accepted them.
#[derive(Debug, Error)]
#[error("{0}")]
pub(crate) struct UsageError(String);

impl UsageError {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        UsageError(what.into())
    }
}
