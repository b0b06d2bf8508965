//! A worker's reports about one job under its lease.
//!
//! A store gets each as a [`Command`]. Here each has its own type, because each verb takes one of
//! them and has its own kind of answer.

use crate::{
    attempt::Ending,
    command::{Command, ReleaseReason},
    job::ProgressReport,
    job_id::JobId,
    json::JsonText,
    lease::LeaseToken,
    text::StepName,
};
use std::time::Duration;

/// A heartbeat for one lease.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of Command::Heartbeat")]
pub struct Heartbeat {
    pub id: JobId,
    pub token: LeaseToken,
    pub progress: Option<ProgressReport>,
}

/// A worker's report on one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of Command::Settle")]
pub struct Report {
    pub id: JobId,
    pub token: LeaseToken,
    pub ending: Ending,
}

/// A job that its worker gives back.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of Command::Release")]
pub struct Release {
    pub id: JobId,
    pub token: LeaseToken,
    pub reason: ReleaseReason,
    pub delay: Duration,
}

/// A handler begins a step, or finishes it with a result.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of Command::FinishStep")]
pub struct StepReport {
    pub id: JobId,
    pub token: LeaseToken,
    pub name: StepName,
    pub result: Option<JsonText>,
}

impl Heartbeat {
    /// The job, and the command for the store.
    pub fn into_command(self) -> (JobId, Command) {
        let Heartbeat { id, token, progress } = self;
        (id, Command::Heartbeat { token, progress })
    }
}

impl Report {
    /// The job, and the command for the store.
    pub fn into_command(self) -> (JobId, Command) {
        let Report { id, token, ending } = self;
        (id, Command::Settle { token, ending })
    }
}

impl Release {
    /// The job, and the command for the store.
    pub fn into_command(self) -> (JobId, Command) {
        let Release { id, token, reason, delay } = self;
        (id, Command::Release { token, reason, delay })
    }
}

impl StepReport {
    /// The job, and the command for the store.
    pub fn into_command(self) -> (JobId, Command) {
        let StepReport { id, token, name, result } = self;
        let command = match result {
            None => Command::BeginStep { token, name },
            Some(result) => Command::FinishStep { token, name, result },
        };
        (id, command)
    }
}
