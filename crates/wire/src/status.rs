//! The status of a job: the twelve original fields in their original order, then later additions.

use crate::{json::Json, time::Rfc3339};
use engine::{Job, Progress};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What every caller who may see a job sees of it. Absent values are null, never left out.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the fields are the contract's own")]
pub struct JobStatus {
    pub job_id: String,
    pub job_type: String,
    pub subject_id: Option<String>,
    pub correlation_id: String,
    pub status: String,
    pub attempt: u32,
    pub max_attempts: u32,
    pub created_at: Rfc3339,
    pub started_at: Option<Rfc3339>,
    pub completed_at: Option<Rfc3339>,
    pub error_code: Option<String>,
    pub error_message: Option<String>,
    pub next_attempt_at: Option<Rfc3339>,
    pub attempt_started_at: Option<Rfc3339>,
    pub progress: Option<JobProgress>,
    pub cancel_requested: bool,
    pub message: Option<String>,
    pub result: Option<Json>,
    pub result_url: Option<String>,
    pub redrive_count: u32,
    pub parent_id: Option<String>,
    /// When an operator removed it from the poison queue for good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discarded_at: Option<Rfc3339>,
    /// Only for callers who see several tenants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
}

/// The last progress that the handler reported; 100 once the job is completed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the fields are the contract's own")]
#[schema(as = Progress)]
pub struct JobProgress {
    pub percent: u8,
    pub note: Option<String>,
    pub at: Rfc3339,
}

impl From<&Job> for JobStatus {
    fn from(job: &Job) -> Self {
        let (envelope, life) = (&job.envelope, &job.life);
        let failure = life.last_failure.as_ref();
        JobStatus {
            job_id: job.id().to_string(),
            job_type: envelope.job_type.to_string(),
            subject_id: envelope.subject.as_ref().map(ToString::to_string),
            correlation_id: envelope.correlation.to_string(),
            status: job.status().to_string(),
            attempt: life.attempt,
            max_attempts: job.max_attempts,
            created_at: envelope.created_at.into(),
            started_at: life.started_at.map(Rfc3339),
            completed_at: job.ended_at().map(Rfc3339),
            error_code: failure.map(|failure| failure.code.to_string()),
            error_message: failure.and_then(|failure| failure.message.as_deref().map(Into::into)),
            next_attempt_at: job.run_at().map(Rfc3339),
            attempt_started_at: job.attempt_started_at().map(Rfc3339),
            progress: job.progress().as_ref().map(JobProgress::from),
            cancel_requested: life.cancel_requested,
            message: life.message.as_deref().map(Into::into),
            result: life.result.as_ref().map(Json::from),
            result_url: life.result_url.as_ref().map(ToString::to_string),
            redrive_count: life.redrive_count,
            parent_id: envelope.parent.map(|parent| parent.to_string()),
            discarded_at: job.ended().and_then(|ended| ended.discarded_at).map(Rfc3339),
            tenant: None,
        }
    }
}

impl JobStatus {
    /// Adds the tenant, for callers who see several.
    pub fn with_tenant(self, job: &Job) -> Self {
        JobStatus { tenant: Some(job.envelope.tenant.to_string()), ..self }
    }
}

impl From<&Progress> for JobProgress {
    fn from(progress: &Progress) -> Self {
        JobProgress {
            percent: progress.report.percent,
            note: progress.report.note.as_deref().map(Into::into),
            at: progress.at.into(),
        }
    }
}
