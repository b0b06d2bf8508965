//! Submit: one job, or several together.

use crate::{
    body::{Unreadable, read},
    json::Json,
    list::at_most,
    problem::Problem,
    time::parse_time,
};
use engine::{
    FieldProblem, Findings, ITEMS_MAX, JobDraft, JobId, JsonText, Refusal, Submitted, Timestamp,
    check_count, format_time,
};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error, Unexpected, Visitor},
};
use std::fmt;
use utoipa::ToSchema;

/// A job as a client submits it. It has no tenant: that comes from the credential.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
#[expect(missing_docs, reason = "the fields are the contract's own")]
pub struct SubmitRequest {
    #[schema(required)]
    pub job_type: String,
    pub subject_id: Option<String>,
    pub correlation_id: Option<String>,
    pub idempotency_key: Option<String>,
    pub payload: Option<Json>,
    pub payload_version: Option<PayloadVersion>,
    pub priority: Option<i64>,
    pub run_at: Option<String>,
    pub delay_seconds: Option<i64>,
    pub expires_at: Option<String>,
    pub max_attempts: Option<i64>,
    pub parent_id: Option<String>,
    pub traceparent: Option<String>,
    /// What a key means that belongs to a Failed, Poisoned or Cancelled job: still that job
    /// (`duplicate`, the default), or this one from now on (`new`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_ended: Option<String>,
}

/// Several jobs in one request. They are parsed one by one, so that one wrong job need not refuse
/// the others.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
pub struct BatchRequest {
    /// The jobs, unparsed.
    #[serde(deserialize_with = "at_most::<_, _, ITEMS_MAX>")]
    #[schema(required, value_type = Vec<SubmitRequest>)]
    pub jobs: Vec<Json>,
}

/// The client's own name for the shape of its payload, a number or a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(untagged)]
#[expect(missing_docs, reason = "said above")]
pub enum PayloadVersion {
    Number(u32),
    Text(String),
}

/// The answer to a submit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the fields are the contract's own")]
#[schema(as = Submitted)]
pub struct SubmittedJob {
    pub job_id: String,
    pub subject_id: Option<String>,
    pub status_url: String,
    pub correlation_id: String,
    pub status: String,
    pub duplicate: bool,
    /// Only if the request asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signed_status_url: Option<String>,
    /// Only if the request asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signed_events_url: Option<String>,
}

/// The answer to a submit of several jobs.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct BatchAnswer {
    /// One for each job, in their order.
    pub items: Vec<BatchItem>,
}

/// What became of one job of a batch. Only a partial batch has refused ones.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
#[expect(missing_docs, reason = "the variants are spelled out by what they hold")]
pub enum BatchItem {
    Submitted(SubmittedJob),
    Refused { problem: Problem },
}

/// The path of a job's status.
pub fn status_url(id: JobId) -> String {
    format!("/api/jobs/{id}/status")
}

/// The path of the stream of a job's events.
pub fn events_url(id: JobId) -> String {
    format!("/api/jobs/{id}/events")
}

impl SubmitRequest {
    /// The draft that the engine checks. Only the times are parsed here.
    pub fn into_draft(self) -> Result<JobDraft, Refusal> {
        let mut findings = Findings::default();
        let mut time = |field, text: Option<String>| {
            findings
                .keep_optional(text.map(|text| parse_time(field, &text)))
                .map(Timestamp::unix_ms)
        };
        let run_at = time("runAt", self.run_at);
        let expires_at = time("expiresAt", self.expires_at);
        if !findings.is_empty() {
            return Err(findings.refusal());
        }
        Ok(JobDraft {
            job_type: self.job_type,
            subject_id: self.subject_id,
            correlation_id: self.correlation_id,
            idempotency_key: self.idempotency_key,
            payload: self.payload.map(|payload| payload.as_str().to_owned()),
            payload_version: self.payload_version.map(engine::PayloadVersion::from),
            priority: self.priority,
            run_at,
            delay_seconds: self.delay_seconds,
            expires_at,
            max_attempts: self.max_attempts,
            parent_id: self.parent_id,
            traceparent: self.traceparent,
            on_ended: self.on_ended,
        })
    }
}

/// The request for a draft. It fails where the payload is not JSON.
impl TryFrom<JobDraft> for SubmitRequest {
    type Error = FieldProblem;

    fn try_from(draft: JobDraft) -> Result<Self, FieldProblem> {
        let payload = draft.payload.as_deref();
        let payload =
            payload.map(|text| JsonText::parse("payload", text, usize::MAX)).transpose()?;
        let time = |ms: Option<i64>| ms.map(|ms| format_time(Timestamp::from_unix_ms(ms)));
        Ok(SubmitRequest {
            job_type: draft.job_type,
            subject_id: draft.subject_id,
            correlation_id: draft.correlation_id,
            idempotency_key: draft.idempotency_key,
            payload: payload.as_ref().map(Json::from),
            payload_version: draft.payload_version.as_ref().map(PayloadVersion::from),
            priority: draft.priority,
            run_at: time(draft.run_at),
            delay_seconds: draft.delay_seconds,
            expires_at: time(draft.expires_at),
            max_attempts: draft.max_attempts,
            parent_id: draft.parent_id,
            traceparent: draft.traceparent,
            on_ended: draft.on_ended,
        })
    }
}

impl BatchRequest {
    /// Checks that there are jobs, and not too many.
    pub fn check_count(&self) -> Result<(), Refusal> {
        Ok(check_count("jobs", self.jobs.len(), 1..=ITEMS_MAX)?)
    }

    /// Parses one job after another. A pointer to what is wrong begins at the job.
    pub fn read(&self) -> impl Iterator<Item = Result<SubmitRequest, Unreadable>> {
        self.jobs.iter().map(|job| read(job.as_str().as_bytes()))
    }
}

impl From<&Submitted> for SubmittedJob {
    fn from(submitted: &Submitted) -> Self {
        SubmittedJob {
            job_id: submitted.job_id.to_string(),
            subject_id: submitted.subject.as_ref().map(ToString::to_string),
            status_url: status_url(submitted.job_id),
            correlation_id: submitted.correlation.to_string(),
            status: submitted.status.to_string(),
            duplicate: submitted.duplicate,
            signed_status_url: None,
            signed_events_url: None,
        }
    }
}

impl From<&engine::PayloadVersion> for PayloadVersion {
    fn from(version: &engine::PayloadVersion) -> Self {
        match version {
            engine::PayloadVersion::Number(number) => PayloadVersion::Number(*number),
            engine::PayloadVersion::Text(text) => PayloadVersion::Text((**text).into()),
        }
    }
}

impl From<PayloadVersion> for engine::PayloadVersion {
    fn from(shape: PayloadVersion) -> Self {
        match shape {
            PayloadVersion::Number(number) => engine::PayloadVersion::Number(number),
            PayloadVersion::Text(text) => engine::PayloadVersion::Text(text.into()),
        }
    }
}

// Not derived: an untagged enum forgets its position in the body, and then the error could not name
// the field.
impl<'de> Deserialize<'de> for PayloadVersion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NumberOrText)
    }
}

struct NumberOrText;

impl Visitor<'_> for NumberOrText {
    type Value = PayloadVersion;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number from 0 to {} or a text", u32::MAX)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
        match u32::try_from(number) {
            Ok(number) => Ok(PayloadVersion::Number(number)),
            Err(_) => Err(E::invalid_value(Unexpected::Unsigned(number), &self)),
        }
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(PayloadVersion::Text(text.into()))
    }
}
