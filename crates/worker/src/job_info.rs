//! What a worker knows about a job that it has claimed.

use engine::{
    CorrelationId, JobId, JobType, LeaseToken, PayloadVersion, Priority, SubjectId, Tenant,
    Timestamp, TraceParent,
};
use std::time::Duration;

/// A claimed job, as the backend described it to its worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobInfo {
    /// Its id.
    pub id: JobId,
    /// Its type.
    pub job_type: JobType,
    /// The tenant it belongs to.
    pub tenant: Tenant,
    /// Its subject: what it is about.
    pub subject: Option<SubjectId>,
    /// What ties it to everything else that belongs to the same operation.
    pub correlation: CorrelationId,
    /// 0 (last) to 9 (first).
    pub priority: Priority,
    /// 1 during the first attempt.
    pub attempt: u32,
    /// Attempts that this life may use.
    pub max_attempts: u32,
    /// When it was submitted.
    pub created_at: Timestamp,
    /// How often it was redriven: 0 in its first life.
    pub redrive_count: u32,
    /// The job whose handler submitted it.
    pub parent: Option<JobId>,
    /// The trace that it was submitted in.
    pub traceparent: Option<TraceParent>,
    /// The client's own name for the shape of the payload.
    pub payload_version: Option<PayloadVersion>,
    /// The right to report on it.
    pub token: LeaseToken,
    /// How long that right holds without a heartbeat.
    pub lease: Duration,
    /// How long the handler may take.
    pub timeout: Duration,
}
