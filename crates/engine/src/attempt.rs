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
    /// How it ended.
    pub how: EndingKind,
    /// A sentence for people.
    pub message: Option<Box<str>>,
}

/// The ways in which an attempt ends.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of a draft")]
pub enum EndingKind {
    /// The work is done.
    Completed { result: Option<JsonText>, result_url: Option<ResultUrl> },
    /// It did not work this time. The handler may know better than the policy when to try again.
    Failed { failure: Failure, retry_after: Option<Duration> },
    /// It will never work.
    FailedForGood(Failure),
    /// The message cannot be read.
    Poisoned(Failure),
    /// The handler stopped because it was asked to.
    Cancelled,
}

/// The contract's word for how an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the variants are the contract's own words")]
pub enum OutcomeWord {
    Completed,
    Failed,
    Poisoned,
    Cancelled,
}

/// A report as it came in, unchecked. It has no `Debug`: results are never logged.
#[derive(Clone)]
#[expect(missing_docs, reason = "the fields are the contract's own")]
pub struct EndingDraft {
    pub outcome: OutcomeWord,
    pub retryable: Option<bool>,
    pub error_code: Option<String>,
    pub error_message: Option<String>,
    pub retry_after_seconds: Option<i64>,
    pub message: Option<String>,
    pub result: Option<String>,
    pub result_url: Option<String>,
}

/// A result is a small thing; a large one goes somewhere else and leaves its address.
pub const RESULT_BYTES_MAX: usize = 4 * 1024;

impl EndingDraft {
    /// A report with nothing but its outcome.
    pub fn new(outcome: OutcomeWord) -> Self {
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
        let said = findings.keep_given(text("errorMessage", &self.error_message));
        let retry_after = self.retry_after_seconds.map(|s| check_delay("retryAfterSeconds", s));
        let retry_after = findings.keep_given(retry_after);
        let message = findings.keep_given(text("message", &self.message));
        let result = self.result.as_deref().map(|r| JsonText::parse("result", r, RESULT_BYTES_MAX));
        let result = findings.keep_given(result);
        let result_url = findings.keep_given(self.result_url.as_deref().map(ResultUrl::parse));

        let (Some(code), true) = (code, findings.is_empty()) else {
            return Err(findings.into_problems());
        };
        let failure = Failure { code, message: said };
        let how = match (self.outcome, self.retryable.unwrap_or(true)) {
            (OutcomeWord::Completed, _) => EndingKind::Completed { result, result_url },
            (OutcomeWord::Failed, true) => EndingKind::Failed { failure, retry_after },
            (OutcomeWord::Failed, false) => EndingKind::FailedForGood(failure),
            (OutcomeWord::Poisoned, _) => EndingKind::Poisoned(failure),
            (OutcomeWord::Cancelled, _) => EndingKind::Cancelled,
        };
        Ok(Ending { how, message })
    }

    fn failure_code(&self) -> Checked<ErrorCode> {
        match (&self.error_code, self.outcome) {
            (Some(code), _) => ErrorCode::parse(code),
            (None, OutcomeWord::Poisoned) => Ok(ErrorCode::ours(failure_codes::MESSAGE_UNREADABLE)),
            (None, OutcomeWord::Completed | OutcomeWord::Failed | OutcomeWord::Cancelled) => {
                Ok(ErrorCode::ours(failure_codes::HANDLER_FAILED))
            }
        }
    }
}

/// A fingerprint of how an attempt ended: a repeat is told from a contradiction by it.
///
/// It covers what was decided (outcome, code, result), not the sentences for people: a client that
/// words its message anew on every try still repeats itself.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct EndingDigest(pub [u8; 16]);

impl EndingDigest {
    /// The fingerprint of a settled attempt.
    pub fn of(ending: &Ending) -> Self {
        let (word, code) = match &ending.how {
            EndingKind::Completed { result, result_url } => {
                let result = result.as_ref().map(JsonText::canonical).unwrap_or_default();
                let url = result_url.as_ref().map_or("", ResultUrl::as_str);
                return Self::digest(&["completed", &result, url]);
            }
            EndingKind::Failed { failure, .. } => ("failed", failure),
            EndingKind::FailedForGood(failure) => ("failed for good", failure),
            EndingKind::Poisoned(failure) => ("poisoned", failure),
            EndingKind::Cancelled => return Self::digest(&["cancelled"]),
        };
        Self::digest(&[word, code.code.as_str()])
    }

    pub(crate) fn given_back() -> Self {
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

/// What is remembered of an attempt that its worker ended, so that a repeat gets the same answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptRecord {
    /// The lease that was ended.
    pub token: LeaseToken,
    /// How.
    pub ending: EndingDigest,
    /// What the job became by it, which is what the worker was told.
    pub status: Status,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_and_retryable_make_the_ending() {
        let how = |outcome, retryable| {
            EndingDraft { retryable, ..EndingDraft::new(outcome) }.check().unwrap().how
        };
        assert!(matches!(how(OutcomeWord::Failed, None), EndingKind::Failed { .. }));
        assert!(matches!(how(OutcomeWord::Failed, Some(true)), EndingKind::Failed { .. }));
        assert!(matches!(how(OutcomeWord::Failed, Some(false)), EndingKind::FailedForGood(_)));
        assert!(matches!(how(OutcomeWord::Completed, Some(false)), EndingKind::Completed { .. }));
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
            ..EndingDraft::new(OutcomeWord::Completed)
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
                ..EndingDraft::new(OutcomeWord::Failed)
            };
            EndingDigest::of(&draft.check().unwrap())
        };
        assert_eq!(failed("A", "after 3 s"), failed("A", "after 4 s"));
        assert_ne!(failed("A", ""), failed("B", ""));
    }
}
