//! A job as a client submits it.

use crate::{fail::whole_seconds, system};
use engine::{FieldProblem, JobDraft, OnEnded, PayloadVersion};
use serde::Serialize;
use std::time::Duration;

/// A job that is about to be submitted.
///
/// ```
/// use worker::JobRequest;
///
/// let email = serde_json::json!({"to": "ada@example.org"});
/// let request = JobRequest::new("email", &email).idempotency_key("order-7").subject("order/7");
/// let request = request.priority(9);
/// # drop(request);
/// ```
///
/// Give it an idempotency key whenever you can: a client that repeats a request under its key gets
/// the first job again.
#[derive(Clone)]
#[must_use = "nothing happens until it is submitted"]
pub struct JobRequest {
    draft: JobDraft,
    /// Why the payload cannot be written as JSON.
    unwritable: Option<String>,
}

impl JobRequest {
    /// A job of this type, with this payload.
    pub fn new(job_type: &str, payload: &impl Serialize) -> Self {
        let payload = serde_json::to_string(payload);
        let unwritable = payload.as_ref().err().map(ToString::to_string);
        let (job_type, payload) = (job_type.to_owned(), payload.ok());
        JobRequest { draft: JobDraft { job_type, payload, ..JobDraft::default() }, unwritable }
    }

    /// The idempotency key, under which a repeat is recognised.
    pub fn idempotency_key(self, key: impl Into<String>) -> Self {
        self.with_change(|draft| draft.idempotency_key = Some(key.into()))
    }

    /// What the job is about.
    pub fn subject(self, subject: impl Into<String>) -> Self {
        self.with_change(|draft| draft.subject_id = Some(subject.into()))
    }

    /// The correlation: what the job belongs to, in logs and in other systems.
    pub fn correlation(self, correlation: impl Into<String>) -> Self {
        self.with_change(|draft| draft.correlation_id = Some(correlation.into()))
    }

    /// The W3C trace that the job is part of.
    pub fn traceparent(self, traceparent: impl Into<String>) -> Self {
        self.with_change(|draft| draft.traceparent = Some(traceparent.into()))
    }

    /// Makes a new job where the job of the key failed, was poisoned or cancelled. A completed or
    /// live job is still the first one again. Without a key it is refused.
    ///
    /// ```
    /// let payload = serde_json::json!({"invoice": 7});
    /// let request = worker::JobRequest::new("invoice", &payload)
    ///     .idempotency_key("invoice-7")
    ///     .new_after_dead_end();
    /// # drop(request);
    /// ```
    pub fn new_after_dead_end(self) -> Self {
        self.with_change(|draft| draft.on_ended = Some(OnEnded::New.as_str().into()))
    }

    /// Starts no earlier than after this delay, rounded up to whole seconds.
    pub fn delay(self, delay: Duration) -> Self {
        self.with_change(|draft| draft.delay_seconds = Some(whole_seconds(delay)))
    }

    /// Starts no earlier than this moment, in milliseconds since 1970.
    pub fn run_at_unix_ms(self, at: i64) -> Self {
        self.with_change(|draft| draft.run_at = Some(at))
    }

    /// Starts no later than this moment, in milliseconds since 1970.
    pub fn expires_at_unix_ms(self, at: i64) -> Self {
        self.with_change(|draft| draft.expires_at = Some(at))
    }

    /// 0 (last) to 9 (first); 4 by default.
    pub fn priority(self, priority: u8) -> Self {
        self.with_change(|draft| draft.priority = Some(priority.into()))
    }

    /// How often it is tried, instead of what the policy of the type says.
    pub fn max_attempts(self, attempts: u32) -> Self {
        self.with_change(|draft| draft.max_attempts = Some(attempts.into()))
    }

    /// The client's own name for the shape of the payload.
    pub fn payload_version(self, version: &str) -> Self {
        self.with_change(|draft| draft.payload_version = Some(PayloadVersion::Text(version.into())))
    }

    /// Adds a random key if it has none, so that it can be sent twice. For a remote server.
    #[doc(hidden)]
    pub fn or_random_key(self) -> Self {
        // `onEnded` without a key is refused. A random key would hide that the client forgot its
        // own.
        if self.draft.on_ended.is_some() {
            return self;
        }
        let random_key = || format!("sdk-{:032x}", system::random().0);
        self.with_change(|draft| {
            draft.idempotency_key.get_or_insert_with(random_key);
        })
    }

    /// The draft, or why the payload cannot be written as JSON.
    pub fn into_draft(self) -> Result<JobDraft, FieldProblem> {
        match self.unwritable {
            Some(error) => {
                Err(FieldProblem::new("payload", format!("cannot be written as JSON: {error}")))
            }
            None => Ok(self.draft),
        }
    }

    fn with_change(mut self, change: impl FnOnce(&mut JobDraft)) -> Self {
        change(&mut self.draft);
        self
    }
}
