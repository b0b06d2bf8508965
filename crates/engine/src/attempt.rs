//! How an attempt ends, as its worker reports it.

use crate::{
    field::{Checked, FieldProblem, Findings, cut_text},
    job::Status,
    json::JsonText,
    key::sha256,
    lease::LeaseToken,
    outcome::{Failure, MESSAGE_BYTES_MAX, failure_codes},
    text::{ErrorCode, ResultUrl},
    time::check_delay,
};
use std::{fmt, time::Duration};

/// A worker's report on its attempt. Only [`EndingDraft::check`] makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ending {
    /// The kind of ending.
    pub kind: EndingKind,
    /// A sentence for people.
    pub message: Option<Box<str>>,
}

/// The kinds of endings.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of a draft")]
pub enum EndingKind {
    /// The work is done.
    Completed { result: Option<JsonText>, result_url: Option<ResultUrl> },
    /// The attempt failed. The handler may know better than the policy when to retry.
    Failed { failure: Failure, retry_after: Option<Duration> },
    /// A retry cannot help.
    FailedPermanently(Failure),
    /// The handler cannot read the payload.
    Poisoned(Failure),
    /// The handler stopped because of a cancel request, and may say where or why.
    Cancelled(Option<Failure>),
}

named_enum! {
    /// The outcome of an attempt.
    pub enum Outcome {
        Completed = "completed",
        Failed = "failed",
        Poisoned = "poisoned",
        Cancelled = "cancelled",
    }
}

/// A report as it arrives, unchecked. It has no `Debug`: results are never logged.
#[derive(Clone)]
#[expect(missing_docs, reason = "the fields are the contract's own")]
pub struct EndingDraft {
    pub outcome: Outcome,
    pub retryable: Option<bool>,
    pub error_code: Option<String>,
    pub error_message: Option<String>,
    pub retry_after_seconds: Option<i64>,
    pub message: Option<String>,
    pub result: Option<String>,
    pub result_url: Option<String>,
}

/// A larger result is stored elsewhere, and the report carries its URL.
pub const RESULT_BYTES_MAX: usize = 4 * 1024;

impl EndingDraft {
    /// A report with only an outcome.
    pub fn new(outcome: Outcome) -> Self {
        EndingDraft {
            outcome,
            retryable: None,
            error_code: None,
            error_message: None,
            retry_after_seconds: None,
            message: None,
            result: None,
            result_url: None,
        }
    }

    /// Checks every field, also those that this outcome does not use, and names all that are wrong.
    pub fn check(&self) -> Result<Ending, Vec<FieldProblem>> {
        let text = |field, text: &Option<String>| {
            text.as_deref().map(|text| cut_text(field, text, MESSAGE_BYTES_MAX))
        };
        let mut findings = Findings::default();
        let code = findings.keep(self.failure_code());
        let message_text = findings.keep_optional(text("errorMessage", &self.error_message));
        let retry_after = self.retry_after_seconds.map(|s| check_delay("retryAfterSeconds", s));
        let retry_after = findings.keep_optional(retry_after);
        let message = findings.keep_optional(text("message", &self.message));
        let result = self.result.as_deref().map(|r| JsonText::parse("result", r, RESULT_BYTES_MAX));
        let result = findings.keep_optional(result);
        let result_url = findings.keep_optional(self.result_url.as_deref().map(ResultUrl::parse));

        let (Some(code), true) = (code, findings.is_empty()) else {
            return Err(findings.into_problems());
        };
        let has_failure = self.error_code.is_some() || message_text.is_some();
        let failure = Failure { code, message: message_text };
        let kind = match (self.outcome, self.retryable.unwrap_or(true)) {
            (Outcome::Completed, _) => EndingKind::Completed { result, result_url },
            (Outcome::Failed, true) => EndingKind::Failed { failure, retry_after },
            (Outcome::Failed, false) => EndingKind::FailedPermanently(failure),
            (Outcome::Poisoned, _) => EndingKind::Poisoned(failure),
            (Outcome::Cancelled, _) => EndingKind::Cancelled(has_failure.then_some(failure)),
        };
        Ok(Ending { kind, message })
    }

    fn failure_code(&self) -> Checked<ErrorCode> {
        match (&self.error_code, self.outcome) {
            (Some(code), _) => ErrorCode::parse(code),
            (None, Outcome::Poisoned) => Ok(ErrorCode::ours(failure_codes::MESSAGE_UNREADABLE)),
            (None, Outcome::Completed | Outcome::Failed | Outcome::Cancelled) => {
                Ok(ErrorCode::ours(failure_codes::HANDLER_FAILED))
            }
        }
    }
}

/// A digest of how an attempt ended. It distinguishes a repeated report from a contradicting one.
///
/// It covers what counts (outcome, code, result), not the sentences for people: a client that
/// rewords its message on every retry still repeats itself.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct EndingDigest(pub [u8; 16]);

impl EndingDigest {
    /// The digest of a settled attempt.
    pub fn of(ending: &Ending) -> Self {
        let (word, code) = match &ending.kind {
            EndingKind::Completed { result, result_url } => {
                let result = result.as_ref().map(JsonText::canonical).unwrap_or_default();
                let url = result_url.as_ref().map_or("", ResultUrl::as_str);
                return Self::digest(&["completed", &result, url]);
            }
            EndingKind::Failed { failure, .. } => ("failed", failure),
            EndingKind::FailedPermanently(failure) => ("failed for good", failure),
            EndingKind::Poisoned(failure) => ("poisoned", failure),
            EndingKind::Cancelled(None) => return Self::digest(&["cancelled"]),
            EndingKind::Cancelled(Some(failure)) => ("cancelled", failure),
        };
        Self::digest(&[word, code.code.as_str()])
    }

    pub(crate) fn released() -> Self {
        Self::digest(&["given back"])
    }

    fn digest(parts: &[&str]) -> Self {
        let hash = sha256(parts.join("\0").as_bytes());
        let mut short = [0; 16];
        short.copy_from_slice(&hash[..16]);
        EndingDigest(short)
    }
}

impl fmt::Debug for EndingDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02x}{:02x}", self.0[0], self.0[1])
    }
}

/// What is kept of an attempt that its worker ended, so that a repeated report gets the same
/// answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptRecord {
    /// The lease that the report ended.
    pub token: LeaseToken,
    /// The digest of the report.
    pub ending: EndingDigest,
    /// The status of the job after the report, which is the answer that the worker got.
    pub status: Status,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_and_retryable_make_the_ending() {
        let kind = |outcome, retryable| {
            EndingDraft { retryable, ..EndingDraft::new(outcome) }.check().unwrap().kind
        };
        assert!(matches!(kind(Outcome::Failed, None), EndingKind::Failed { .. }));
        assert!(matches!(kind(Outcome::Failed, Some(true)), EndingKind::Failed { .. }));
        assert!(matches!(kind(Outcome::Failed, Some(false)), EndingKind::FailedPermanently(_)));
        assert!(matches!(kind(Outcome::Completed, Some(false)), EndingKind::Completed { .. }));
    }

    #[test]
    fn every_wrong_field_of_a_report_is_named() {
        let draft = EndingDraft {
            error_code: Some("no code".into()),
            error_message: Some("\0".into()),
            retry_after_seconds: Some(-1),
            message: Some("\0".into()),
            result: Some(format!("\"{}\"", "x".repeat(RESULT_BYTES_MAX))),
            result_url: Some(String::new()),
            ..EndingDraft::new(Outcome::Completed)
        };
        let fields: Vec<_> = draft.check().unwrap_err().into_iter().map(|p| p.field).collect();
        assert_eq!(
            fields,
            ["errorCode", "errorMessage", "retryAfterSeconds", "message", "result", "resultUrl"]
        );
    }

    #[test]
    fn a_reworded_message_is_a_repeat_and_another_code_is_not() {
        let failed = |code: &str, message: &str| {
            let draft = EndingDraft {
                error_code: Some(code.into()),
                error_message: Some(message.into()),
                ..EndingDraft::new(Outcome::Failed)
            };
            EndingDigest::of(&draft.check().unwrap())
        };
        assert_eq!(failed("A", "after 3 s"), failed("A", "after 4 s"));
        assert_ne!(failed("A", ""), failed("B", ""));
    }
}
