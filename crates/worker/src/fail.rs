//! How a handler says that its attempt did not succeed.

use engine::{DELAY_SECONDS_MAX, EndingDraft, Outcome};
use std::{error::Error, fmt, time::Duration};

/// Why an attempt did not succeed, and what should become of the job.
///
/// Any error becomes one with `?` (or with [`Fail::other`], if it is in a `Box`). The job is then
/// tried again, as the policy of the type says.
///
/// ```
/// use worker::Fail;
///
/// fn read(text: &str) -> Result<u32, Fail> {
///     let number: u32 = text.parse()?; // tried again
///     if number > 100 {
///         return Err(Fail::for_good("TOO_MUCH", "an order has at most a hundred"));
///     }
///     Ok(number)
/// }
/// # assert!(read("7").is_ok() && read("x").is_err() && read("101").is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fail {
    pub(crate) kind: Kind,
    pub(crate) code: Option<String>,
    pub(crate) message: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Retry { after: Option<Duration> },
    ForGood,
    Poison,
    Cancelled,
    Snooze(Duration),
    NotStarted,
    AwaitsChildren,
}

impl Fail {
    /// The attempt failed. The policy of the type says when the job is tried again, and after how
    /// many attempts it goes to the poison queue.
    ///
    /// A code is stable and made for programs: capital letters, digits and underscores, at most 64
    /// (`SMTP_DOWN`). An invalid code is replaced by `HANDLER_FAILED`, and the job's message says
    /// so.
    pub fn retry(code: &str, message: impl fmt::Display) -> Self {
        Fail::new(Kind::Retry { after: None }, code, message)
    }

    /// Sets the wait before the next attempt, whatever the policy says. It is rounded up to whole
    /// seconds.
    pub fn after(mut self, wait: Duration) -> Self {
        if let Kind::Retry { after } = &mut self.kind {
            *after = Some(wait.min(DELAY_MAX));
        }
        self
    }

    /// A retry cannot help: the job ends as `Failed`.
    pub fn for_good(code: &str, message: impl fmt::Display) -> Self {
        Fail::new(Kind::ForGood, code, message)
    }

    /// The payload cannot be processed: the job goes to the poison queue.
    pub fn poison(code: &str, message: impl fmt::Display) -> Self {
        Fail::new(Kind::Poison, code, message)
    }

    /// The handler stopped because it was asked to: the job ends as `Cancelled`.
    pub fn cancelled() -> Self {
        Fail { kind: Kind::Cancelled, code: None, message: None }
    }

    /// Not now: the job is given back and the attempt does not count (at most 20 times in a life).
    pub fn snooze(wait: Duration) -> Self {
        Fail { kind: Kind::Snooze(wait.min(DELAY_MAX)), code: None, message: None }
    }

    /// The work could not begin, because this machine lacks descriptors, processes or memory. The
    /// job is given back as if it had not been claimed, however often. Use it only where nothing
    /// was done, and wait a little before: the job may come back at once.
    pub fn not_started() -> Self {
        Fail { kind: Kind::NotStarted, code: None, message: None }
    }

    /// The handler waits for the children of its job: see
    /// [`Context::wait_for_children`](crate::Context::wait_for_children).
    pub(crate) fn awaits_children() -> Self {
        Fail { kind: Kind::AwaitsChildren, code: None, message: None }
    }

    /// Any other error, such as those of `anyhow` or in a `Box`: the job is tried again.
    pub fn other(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        let error: Box<dyn Error + Send + Sync> = error.into();
        Fail::caused_by(&*error)
    }

    fn caused_by(error: &dyn Error) -> Self {
        let causes = std::iter::successors(error.source(), |cause| (*cause).source());
        let causes: String = causes.map(|cause| format!(": {cause}")).collect();
        let message = Some(format!("{error}{causes}"));
        Fail { kind: Kind::Retry { after: None }, code: None, message }
    }

    fn new(kind: Kind, code: &str, message: impl fmt::Display) -> Self {
        Fail { kind, code: Some(code.to_owned()), message: Some(message.to_string()) }
    }

    /// The report for the backend; empty for a failure that is sent as a release.
    pub(crate) fn draft(&self) -> EndingDraft {
        let (outcome, retryable, after) = match self.kind {
            Kind::Retry { after } => (Outcome::Failed, true, after),
            Kind::ForGood => (Outcome::Failed, false, None),
            Kind::Poison => (Outcome::Poisoned, false, None),
            Kind::Cancelled => (Outcome::Cancelled, false, None),
            Kind::Snooze(_) | Kind::NotStarted | Kind::AwaitsChildren => {
                (Outcome::Failed, true, Some(Duration::ZERO))
            }
        };
        EndingDraft {
            retryable: Some(retryable),
            error_code: self.code.clone(),
            error_message: self.message.clone(),
            retry_after_seconds: after.map(whole_seconds),
            ..EndingDraft::new(outcome)
        }
    }
}

/// The longest lawful wait, ten years. A longer one would get the whole page of reports refused.
const DELAY_MAX: Duration = Duration::from_secs(DELAY_SECONDS_MAX as u64);

/// Rounds up, so that no job is tried earlier than its handler asked for.
pub(crate) fn whole_seconds(wait: Duration) -> i64 {
    let seconds = wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0));
    i64::try_from(seconds).unwrap_or(i64::MAX)
}

/// An error that a handler did not expect: the job is tried again. The message includes the causes.
impl<E: Error> From<E> for Fail {
    fn from(error: E) -> Self {
        Fail::caused_by(&error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::EndingKind;

    #[test]
    fn each_way_to_fail_is_reported_as_the_contract_calls_it() {
        let kind = |fail: Fail| fail.draft().check().unwrap().kind;
        assert!(matches!(
            kind(Fail::retry("DOWN", "x")),
            EndingKind::Failed { retry_after: None, .. }
        ));
        let soon = Fail::retry("DOWN", "x").after(Duration::from_millis(1_001));
        let two = Some(Duration::from_secs(2));
        assert!(matches!(kind(soon), EndingKind::Failed { retry_after, .. } if retry_after == two));
        assert!(matches!(kind(Fail::for_good("NO", "x")), EndingKind::FailedPermanently(_)));
        assert!(matches!(kind(Fail::poison("BAD", "x")), EndingKind::Poisoned(_)));
        assert!(matches!(kind(Fail::cancelled()), EndingKind::Cancelled));
    }

    #[test]
    fn an_error_message_includes_its_causes() {
        #[derive(Debug, thiserror::Error)]
        #[error("the mail server did not answer")]
        struct Outer(#[source] std::io::Error);
        let fail = Fail::from(Outer(std::io::Error::other("connection refused")));
        assert_eq!(
            fail.message.as_deref(),
            Some("the mail server did not answer: connection refused")
        );
    }
}
