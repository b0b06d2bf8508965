//! What becomes of a job, and the events that announce it.

use crate::{
    job::{Envelope, Job, Life, Status},
    job_id::JobId,
    text::ErrorCode,
    time::Timestamp,
};
use std::{sync::Arc, time::Duration};

/// Why an attempt did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The stable code.
    pub code: ErrorCode,
    /// The sentence for people, at most 1 KiB.
    pub message: Option<Box<str>>,
}

impl Failure {
    pub(crate) fn ours(code: &'static str, message: impl Into<Box<str>>) -> Self {
        Failure { code: ErrorCode::ours(code), message: Some(message.into()) }
    }
}

/// `errorMessage` and `message` are cut to this.
pub const MESSAGE_BYTES_MAX: usize = 1024;

/// Codes of failures that Consign states itself, beside those that handlers report.
pub mod failure_codes {
    /// The attempt took longer than the type's timeout.
    pub const HANDLER_TIMEOUT: &str = "HANDLER_TIMEOUT";
    /// The worker sent no heartbeat before its lease ran out.
    pub const LEASE_EXPIRED: &str = "LEASE_EXPIRED";
    /// Too many workers in a row were lost over this job.
    pub const WORKER_LOST: &str = "WORKER_LOST";
    /// The job was not started before its `expiresAt`.
    pub const JOB_EXPIRED: &str = "JOB_EXPIRED";
    /// The job was released more often than is free, and its attempts are spent.
    pub const RELEASE_LIMIT: &str = "RELEASE_LIMIT";
    /// A handler reported a failure without a code.
    pub const HANDLER_FAILED: &str = "HANDLER_FAILED";
    /// A handler could not read its payload and gave no code.
    pub const MESSAGE_UNREADABLE: &str = "MESSAGE_UNREADABLE";

    /// All of these codes.
    pub const ALL: [&str; 7] = [
        HANDLER_TIMEOUT,
        LEASE_EXPIRED,
        WORKER_LOST,
        JOB_EXPIRED,
        RELEASE_LIMIT,
        HANDLER_FAILED,
        MESSAGE_UNREADABLE,
    ];
}

named_enum! {
    /// The kinds of announced transitions: the last part of the CloudEvents type `consign.job.…`.
    pub enum EventKind {
        Queued = "queued",
        Running = "running",
        Retrying = "retrying",
        Completed = "completed",
        Failed = "failed",
        Poisoned = "poisoned",
        Cancelled = "cancelled",
        Redriven = "redriven",
    }
}

impl EventKind {
    /// The event of a transition to `status`.
    pub(crate) fn of(status: Status) -> Self {
        match status {
            Status::Queued => EventKind::Queued,
            Status::Running => EventKind::Running,
            Status::Completed => EventKind::Completed,
            Status::Failed => EventKind::Failed,
            Status::Poisoned => EventKind::Poisoned,
            Status::Cancelled => EventKind::Cancelled,
        }
    }
}

/// One announcement, written to the outbox in the transaction of its transition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// When.
    pub at: Timestamp,
    /// The job right after the transition; its `seq` is the number of the transition.
    pub job: Job,
}

impl Event {
    /// The stable id, `{jobId}.{seq}`.
    pub fn id(&self) -> (JobId, u64) {
        (self.job.id(), self.job.seq)
    }

    /// The announcement without what an erased job must not leave behind: subject, messages and
    /// result. That the transition happened, and when, stays.
    pub fn redacted(&self) -> Event {
        let envelope = Envelope { subject: None, key: None, ..(*self.job.envelope).clone() };
        let failure = self.job.life.last_failure.clone();
        let life = Life {
            last_failure: failure.map(|failure| Failure { message: None, ..failure }),
            message: None,
            progress: None,
            result: None,
            result_url: None,
            ..self.job.life.clone()
        };
        let job = Job { envelope: Arc::new(envelope), life, ..self.job.clone() };
        Event { job, ..*self }
    }

    /// How long this life waited from being due to its first start, if it has started.
    pub fn waited(&self) -> Option<Duration> {
        self.job.life.started_at.map(|started| started.since(self.job.life.due_at))
    }

    /// How long this life took from its first start to its end, if it has had both.
    pub fn took(&self) -> Option<Duration> {
        Some(self.job.ended_at()?.since(self.job.life.started_at?))
    }
}
