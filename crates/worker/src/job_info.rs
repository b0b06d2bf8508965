//! What a worker is told about a job that it has claimed.

use engine::{
    CorrelationId, JobId, JobType, LeaseToken, PayloadVersion, Priority, SubjectId, Tenant,
    Timestamp, TraceParent,
};
use std::time::Duration;

/// A claimed job, as its worker was told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobInfo {
    /// Its name.
    pub id: JobId,
    /// What kind of work it is.
    pub job_type: JobType,
    /// Whose job it is.
    pub tenant: Tenant,
    /// What it is about.
    pub subject: Option<SubjectId>,
    /// What ties it to everything else that one request set in motion.
    pub correlation: CorrelationId,
    /// 0 (last) to 9 (first).
    pub priority: Priority,
    /// 1 during the first attempt.
    pub attempt: u32,
    /// Attempts that this life may use.
    pub max_attempts: u32,
    /// When it was handed over.
    pub created_at: Timestamp,
    /// How often it was redriven: 0 in its first life.
    pub redrive_count: u32,
    /// The job that handed it over.
    pub parent: Option<JobId>,
    /// The trace that it was handed over in.
    pub traceparent: Option<TraceParent>,
    /// The client's own word for the shape of the payload.
    pub payload_version: Option<PayloadVersion>,
    /// The right to run it.
    pub token: LeaseToken,
    /// How long that right holds without a heartbeat.
    pub lease: Duration,
    /// How long the handler may take.
    pub timeout: Duration,
}
