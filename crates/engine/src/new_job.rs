//! A job as a client submits it, and the checks before the store gets it.

use crate::{
    entropy::Entropy,
    field::{Checked, FieldProblem, Findings, check_range, check_text},
    job::{PayloadVersion, Priority},
    job_id::JobId,
    json::JsonText,
    key::{ContentDigest, IdempotencyKey, JobKey},
    policy::check_max_attempts,
    refusal::Refusal,
    text::{CorrelationId, JobType, SubjectId, Tenant, TraceParent},
    time::{Timestamp, check_delay},
};
use std::time::Duration;

/// No setting allows larger payloads than this.
pub const PAYLOAD_BYTES_HARD_MAX: usize = 1024 * 1024;
/// The default bound of payloads.
pub const PAYLOAD_BYTES_MAX: usize = 64 * 1024;

/// A job as it arrives, unchecked. It has no `Debug`: payloads are never logged.
#[derive(Clone, Default)]
#[expect(missing_docs, reason = "the fields are the contract's own")]
pub struct JobDraft {
    pub job_type: String,
    pub subject_id: Option<String>,
    pub correlation_id: Option<String>,
    pub idempotency_key: Option<String>,
    /// JSON; absent means `null`.
    pub payload: Option<String>,
    pub payload_version: Option<PayloadVersion>,
    pub priority: Option<i64>,
    /// Milliseconds since 1970, like every time in a draft.
    pub run_at: Option<i64>,
    pub delay_seconds: Option<i64>,
    pub expires_at: Option<i64>,
    pub max_attempts: Option<i64>,
    pub parent_id: Option<String>,
    pub traceparent: Option<String>,
    /// A name of [`OnEnded`]; only together with a key.
    pub on_ended: Option<String>,
}

/// What the server adds to a draft, and no client may choose.
#[derive(Clone, Debug)]
pub struct SubmitContext {
    /// The id that the job gets.
    pub id: JobId,
    /// The tenant of the caller's credential.
    pub tenant: Tenant,
    /// Random bits for the correlation id, where the client gave none.
    pub entropy: Entropy,
    /// The configured bound of payloads.
    pub payload_bytes_max: usize,
}

/// A job that passed every check that needs no store. Only [`JobDraft::check`] makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the fields are the contract's own")]
pub struct NewJob {
    pub id: JobId,
    pub tenant: Tenant,
    pub job_type: JobType,
    pub subject: Option<SubjectId>,
    pub correlation: CorrelationId,
    pub key: Option<JobKey>,
    pub payload: JsonText,
    pub payload_version: Option<PayloadVersion>,
    pub priority: Priority,
    pub start: Start,
    pub expires_at: Option<Timestamp>,
    pub max_attempts: Option<u32>,
    pub parent: Option<JobId>,
    pub traceparent: Option<TraceParent>,
    pub on_ended: OnEnded,
}

named_enum! {
    /// What a submit means whose key belongs to a job that ended without success.
    pub enum OnEnded {
        Duplicate = "duplicate",
        New = "new",
    }
}

/// When a job may start. A delay counts from the store's clock, not from the client's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// As soon as a worker is free.
    Now,
    /// Not before this time.
    At(Timestamp),
    /// Not before this delay is over.
    After(Duration),
}

impl JobDraft {
    /// Checks every field and names all that are wrong, not only the first.
    pub fn check(self, context: SubmitContext) -> Result<NewJob, Refusal> {
        let payload = self.payload.as_deref().unwrap_or("null");
        let bytes_max = check_payload_size(payload, context.payload_bytes_max)?;

        let mut findings = Findings::default();
        let job_type = findings.keep(JobType::parse(&self.job_type));
        let payload = findings.keep(JsonText::parse("payload", payload, bytes_max));
        let subject = findings.keep_optional(self.subject_id.as_deref().map(SubjectId::parse));
        let correlation = self.correlation_id.as_deref().map(CorrelationId::parse);
        let correlation = findings.keep_optional(correlation);
        let name =
            findings.keep_optional(self.idempotency_key.as_deref().map(IdempotencyKey::parse));
        let parent = findings.keep_optional(self.parent_id.as_deref().map(parse_parent));
        // By the standard, an unreadable trace context counts as absent: a proxy's header never
        // costs a job.
        let traceparent = self.traceparent.as_deref().and_then(|t| TraceParent::parse(t).ok());
        let max_attempts = findings.keep_optional(self.max_attempts.map(check_max_attempts));
        let priority = findings.keep(self.checked_priority());
        let payload_version = findings.keep(self.checked_version()).flatten();
        let start = findings.keep(self.checked_start());
        let expires_at = self.expires_at.map(|at| Timestamp::parse("expiresAt", at));
        let expires_at = findings.keep_optional(expires_at);
        let on_ended = findings.keep(self.checked_on_ended());

        let (Some(job_type), Some(payload), Some(priority), Some(start), Some(on_ended), true) =
            (job_type, payload, priority, start, on_ended, findings.is_empty())
        else {
            return Err(findings.refusal());
        };
        let default_correlation = || match &traceparent {
            Some(trace) => trace.trace_id(),
            None => CorrelationId::fresh(context.entropy),
        };
        Ok(NewJob {
            id: context.id,
            tenant: context.tenant,
            job_type,
            correlation: correlation.unwrap_or_else(default_correlation),
            key: name.map(|name| JobKey {
                name,
                content: ContentDigest::of(subject.as_ref(), &payload),
            }),
            subject,
            payload,
            payload_version,
            priority,
            start,
            expires_at,
            max_attempts,
            parent,
            traceparent,
            on_ended,
        })
    }

    fn checked_priority(&self) -> Checked<Priority> {
        let Some(number) = self.priority else {
            return Ok(Priority::DEFAULT);
        };
        let number = check_range("priority", number, 0..=Priority::HIGHEST.0.into())?;
        Ok(Priority(u8::try_from(number).expect("in range")))
    }

    fn checked_version(&self) -> Checked<Option<PayloadVersion>> {
        if let Some(PayloadVersion::Text(text)) = &self.payload_version {
            check_text("payloadVersion", text, 64)?;
        }
        Ok(self.payload_version.clone())
    }

    fn checked_on_ended(&self) -> Checked<OnEnded> {
        let problem = |detail: &str| Err(FieldProblem::new("onEnded", detail));
        match self.on_ended.as_deref().map(OnEnded::from_name) {
            None => Ok(OnEnded::Duplicate),
            Some(None) => problem("must be \"duplicate\" or \"new\""),
            // Without a key no job is a repeat of another, and the client means one that is.
            Some(Some(_)) if self.idempotency_key.is_none() => {
                problem("must be given together with idempotencyKey")
            }
            Some(Some(on_ended)) => Ok(on_ended),
        }
    }

    fn checked_start(&self) -> Checked<Start> {
        match (self.run_at, self.delay_seconds) {
            (None, None) => Ok(Start::Now),
            (Some(at), None) => Ok(Start::At(Timestamp::parse("runAt", at)?)),
            (None, Some(seconds)) => Ok(Start::After(check_delay("delaySeconds", seconds)?)),
            (Some(_), Some(_)) => {
                Err(FieldProblem::new("delaySeconds", "must not be given together with runAt"))
            }
        }
    }
}

/// Checks a payload that replaces a job's first one, as the first one was checked.
pub fn check_payload(payload: &str, payload_bytes_max: usize) -> Result<JsonText, Refusal> {
    let bytes_max = check_payload_size(payload, payload_bytes_max)?;
    Ok(JsonText::parse("payload", payload, bytes_max)?)
}

/// Refuses a payload above the bound, which is the configured one or the hard one.
fn check_payload_size(payload: &str, payload_bytes_max: usize) -> Result<usize, Refusal> {
    let bytes_max = payload_bytes_max.min(PAYLOAD_BYTES_HARD_MAX);
    if payload.len() > bytes_max {
        return Err(Refusal::PayloadTooLarge { bytes: payload.len(), bytes_max });
    }
    Ok(bytes_max)
}

fn parse_parent(text: &str) -> Checked<JobId> {
    JobId::parse(text).map_err(|problem| FieldProblem { field: "parentId", ..problem })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context() -> SubmitContext {
        SubmitContext {
            id: JobId::new(Timestamp::from_unix_ms(1), Entropy(1)),
            tenant: Tenant::default_tenant(),
            entropy: Entropy(7),
            payload_bytes_max: PAYLOAD_BYTES_MAX,
        }
    }

    fn draft() -> JobDraft {
        JobDraft { job_type: "email".into(), ..JobDraft::default() }
    }

    #[test]
    fn the_least_a_client_must_say_is_the_type() {
        let new = draft().check(context()).unwrap();
        assert_eq!((new.priority, new.start, new.key), (Priority::DEFAULT, Start::Now, None));
        assert_eq!(new.payload.as_str(), "null");
        assert_eq!(new.correlation.as_str().len(), 36);
    }

    #[test]
    fn correlation_is_the_client_s_or_the_trace_s_or_new() {
        let traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned();
        let traced = JobDraft { traceparent: Some(traceparent), ..draft() };
        let new = traced.clone().check(context()).unwrap();
        assert_eq!(new.correlation.as_str(), "0af7651916cd43dd8448eb211c80319c");
        let own = JobDraft { correlation_id: Some("mine".into()), ..traced };
        assert_eq!(own.check(context()).unwrap().correlation.as_str(), "mine");
    }

    #[test]
    fn every_wrong_field_is_named_at_once() {
        let long = |chars: usize| Some("x".repeat(chars));
        let hostile = JobDraft {
            job_type: "No".into(),
            subject_id: long(257),
            correlation_id: Some("a\0b".into()),
            idempotency_key: Some(String::new()),
            payload: Some("{".into()),
            payload_version: Some(PayloadVersion::Text("".into())),
            priority: Some(10),
            run_at: Some(i64::MAX),
            delay_seconds: None,
            expires_at: Some(-1),
            max_attempts: Some(0),
            parent_id: Some("x".into()),
            traceparent: Some("x".into()),
            on_ended: Some("New".into()),
        };
        let refusal = hostile.clone().check(context()).unwrap_err();
        let mut fields: Vec<_> = refusal.problems().iter().map(|p| p.field).collect();
        fields.sort_unstable();
        assert_eq!(
            fields,
            [
                "correlationId",
                "expiresAt",
                "idempotencyKey",
                "jobType",
                "maxAttempts",
                "onEnded",
                "parentId",
                "payload",
                "payloadVersion",
                "priority",
                "runAt",
                "subjectId",
            ]
        );
        let both = JobDraft { run_at: Some(1), delay_seconds: Some(1), ..draft() };
        assert_eq!(both.check(context()).unwrap_err().problems()[0].field, "delaySeconds");
        for seconds in [-1, i64::MIN, i64::MAX] {
            let late = JobDraft { delay_seconds: Some(seconds), ..draft() };
            assert_eq!(late.check(context()).unwrap_err().problems()[0].field, "delaySeconds");
        }
    }

    #[test]
    fn a_large_payload_is_refused_before_anything_else() {
        let large = JobDraft { payload: Some("x".repeat(PAYLOAD_BYTES_MAX + 1)), ..draft() };
        let refusal = large.check(context()).unwrap_err();
        assert_eq!(refusal.code(), "PAYLOAD_TOO_LARGE");
        let setting = SubmitContext { payload_bytes_max: usize::MAX, ..context() };
        let huge = JobDraft { payload: Some("x".repeat(PAYLOAD_BYTES_HARD_MAX + 1)), ..draft() };
        assert_eq!(huge.check(setting).unwrap_err().code(), "PAYLOAD_TOO_LARGE");
    }
}
