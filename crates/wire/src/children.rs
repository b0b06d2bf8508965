//! Children: a worker reads how the children of its job ended.

use crate::{json::Json, lease_reference::lease_reference, secret::Secret};
use engine::{Findings, Job, JobId, LeaseToken, Refusal};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A worker asks for the children of a job that it has leased.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
#[expect(missing_docs, reason = "the fields are the contract's own")]
pub struct ChildrenRequest {
    #[schema(required)]
    pub job_id: String,
    #[schema(required)]
    pub token: Secret,
}

/// A child, and how it ended if it has.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the fields are the contract's own")]
#[schema(as = Child)]
pub struct ChildStatus {
    pub job_id: String,
    pub job_type: String,
    pub subject_id: Option<String>,
    pub idempotency_key: Option<String>,
    pub status: String,
    pub error_code: Option<String>,
    pub error_message: Option<String>,
    pub message: Option<String>,
    pub result: Option<Json>,
    pub result_url: Option<String>,
}

impl ChildrenRequest {
    /// Checks both fields.
    pub fn check(&self) -> Result<(JobId, LeaseToken), Refusal> {
        let mut findings = Findings::default();
        let reference = lease_reference(&self.job_id, &self.token, &mut findings);
        reference.ok_or_else(|| findings.refusal())
    }
}

impl From<&Job> for ChildStatus {
    fn from(job: &Job) -> Self {
        let (envelope, life) = (&job.envelope, &job.life);
        let failure = life.last_failure.as_ref();
        ChildStatus {
            job_id: job.id().to_string(),
            job_type: envelope.job_type.to_string(),
            subject_id: envelope.subject.as_ref().map(ToString::to_string),
            idempotency_key: envelope.key.as_ref().map(|key| key.name.as_str().to_owned()),
            status: job.status().to_string(),
            error_code: failure.map(|failure| failure.code.to_string()),
            error_message: failure.and_then(|failure| failure.message.as_deref().map(Into::into)),
            message: life.message.as_deref().map(Into::into),
            result: life.result.as_ref().map(Json::from),
            result_url: life.result_url.as_ref().map(ToString::to_string),
        }
    }
}
