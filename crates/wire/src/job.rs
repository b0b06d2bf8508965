//! The whole job: its status, and what the client submitted.

use crate::{
    extended::{Extended, ExtensionFields},
    json::Json,
    status::JobStatus,
    submit::PayloadVersion,
    time::Rfc3339,
};
use engine::{Job, JsonText};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A job with all its fields.
pub type FullJob = Extended<JobStatus, JobDetails>;

impl ExtensionFields for JobDetails {
    const SCHEMA_NAME: &'static str = "Job";
}

/// What the whole job has beside its status.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = JobMore)]
pub struct JobDetails {
    /// The client's key in its stored form: a long one is its hash.
    pub idempotency_key: Option<String>,
    /// The client's name for the shape of the payload.
    pub payload_version: Option<PayloadVersion>,
    /// 0 (last) to 9 (first).
    pub priority: u8,
    /// When this life was first due; a retry's time is `nextAttemptAt`.
    pub run_at: Rfc3339,
    /// The job does not start after this time.
    pub expires_at: Option<Rfc3339>,
    /// The trace context of the submit.
    pub traceparent: Option<String>,
    /// Left out for callers who may not see it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<Json>,
}

impl FullJob {
    /// Shows `job`, with `payload` for a caller who may see it.
    pub fn new(job: &Job, payload: Option<&JsonText>) -> Self {
        let envelope = &job.envelope;
        let extension = JobDetails {
            idempotency_key: envelope.key.as_ref().map(|key| key.name.as_str().into()),
            payload_version: envelope.payload_version.as_ref().map(PayloadVersion::from),
            priority: envelope.priority.number(),
            run_at: job.life.due_at.into(),
            expires_at: job.expires_at.map(Rfc3339),
            traceparent: envelope.traceparent.as_ref().map(ToString::to_string),
            payload: payload.map(Json::from),
        };
        Extended { base: JobStatus::from(job).with_tenant(job), extension }
    }
}
