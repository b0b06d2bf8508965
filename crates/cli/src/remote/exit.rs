//! How a command ends, for programs that started it.

use std::process::ExitCode;
use thiserror::Error;

/// The request was refused, or it failed.
pub(crate) const REFUSED: u8 = 1;
/// What was typed cannot be meant.
pub(crate) const USAGE: u8 = 2;
/// The job that was waited for ended otherwise than `Completed`.
pub(crate) const ENDED_OTHERWISE: u8 = 3;
/// No server could be reached.
pub(crate) const UNREACHABLE: u8 = 4;

/// What a job that has ended means to whoever waited for it.
pub(crate) fn of_status(status: &str) -> ExitCode {
    match status {
        "Completed" => ExitCode::SUCCESS,
        _ => ExitCode::from(ENDED_OTHERWISE),
    }
}

/// What was typed cannot be meant, and that was only found out later than clap looks.
#[derive(Debug, Error)]
#[error("{0}")]
pub(crate) struct Usage(String);

impl Usage {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Usage(what.into())
    }
}
