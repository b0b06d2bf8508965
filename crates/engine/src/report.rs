//! What a worker says about one job under its lease.
//!
//! A store takes each as a [`Command`]. Here each is a type of its own, because each verb takes one
//! of them and gives an answer of its own kind.

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

/// A sign of life for one lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beat {
    /// The job.
    pub id: JobId,
    /// The lease.
    pub token: LeaseToken,
    /// How far the handler is, if it says.
    pub progress: Option<ProgressReport>,
}

/// A worker's report on one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The job.
    pub id: JobId,
    /// The lease.
    pub token: LeaseToken,
    /// How it ended.
    pub ending: Ending,
}

/// A job that its worker gives back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// The job.
    pub id: JobId,
    /// The lease.
    pub token: LeaseToken,
    /// Why.
    pub reason: ReleaseReason,
    /// How long nobody should try.
    pub delay: Duration,
}

/// A handler begins or finishes a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepReport {
    /// The job.
    pub id: JobId,
    /// The lease.
    pub token: LeaseToken,
    /// Which step.
    pub name: StepName,
    /// What the step came to; nothing where it begins.
    pub result: Option<JsonText>,
}

impl Beat {
    /// The job, and what the store is asked to do to it.
    pub fn into_command(self) -> (JobId, Command) {
        let Beat { id, token, progress } = self;
        (id, Command::Heartbeat { token, progress })
    }
}

impl Report {
    /// The job, and what the store is asked to do to it.
    pub fn into_command(self) -> (JobId, Command) {
        let Report { id, token, ending } = self;
        (id, Command::Settle { token, ending })
    }
}

impl Release {
    /// The job, and what the store is asked to do to it.
    pub fn into_command(self) -> (JobId, Command) {
        let Release { id, token, reason, delay } = self;
        (id, Command::Release { token, reason, delay })
    }
}

impl StepReport {
    /// The job, and what the store is asked to do to it.
    pub fn into_command(self) -> (JobId, Command) {
        let StepReport { id, token, name, result } = self;
        let command = match result {
            None => Command::BeginStep { token, name },
            Some(result) => Command::FinishStep { token, name, result },
        };
        (id, command)
    }
}
