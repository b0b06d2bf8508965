//! One attempt at a job: the state that its handler, its heartbeats and its report share.

use crate::{
    backend::Backend,
    context::Context,
    fail::{Fail, Kind},
    handler::{HandlerFn, Running},
    job_info::JobInfo,
    time::Time,
};
use engine::{
    Ending, EndingDraft, Heartbeat, JsonText, Outcome, ProgressReport, ReleaseReason, SubjectId,
    TraceParent, WorkerId,
};
use futures_util::FutureExt;
use std::{
    any::Any,
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, MutexGuard, OnceLock, Weak},
    time::Duration,
};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span, info_span, warn};

pub(crate) struct Attempt {
    pub(crate) job: JobInfo,
    pub(crate) worker: WorkerId,
    pub(crate) runner: Arc<RunnerContext>,
    pub(crate) stop_token: CancellationToken,
    stop_reason: OnceLock<StopReason>,
    signals: Mutex<HandlerSignals>,
}

/// What all attempts of a runner share.
pub(crate) struct RunnerContext {
    /// Weak: a handler that cannot be ended must not keep a store open that everything else is done
    /// with.
    pub(crate) backend: Weak<dyn Backend>,
    pub(crate) time: Time,
    /// Notified when a handler reports progress.
    pub(crate) progress_made: Notify,
    pub(crate) stopping: CancellationToken,
}

/// Why a handler should stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// A client or an operator cancelled the job.
    Cancelled,
    /// The job's lease is gone: another worker may run it.
    LeaseLost,
    /// The attempt took longer than the type's timeout.
    TimedOut,
    /// The runner stops, and the time for handlers to end is over.
    Stopping,
}

/// What a handler has reported so far.
#[derive(Default)]
pub(crate) struct HandlerSignals {
    /// The progress that no heartbeat has sent yet.
    pub(crate) progress: Option<ProgressReport>,
    pub(crate) message: Option<String>,
    pub(crate) result_url: Option<String>,
    /// How many children of each type it has submitted.
    pub(crate) children: HashMap<String, u32>,
}

/// How an attempt ended, as it is reported.
pub(crate) enum AttemptEnd {
    Settled(Ending),
    Released { reason: ReleaseReason, delay: Duration },
}

impl AttemptEnd {
    /// Gives the job back without delay.
    pub(crate) fn released(reason: ReleaseReason) -> Self {
        AttemptEnd::Released { reason, delay: Duration::ZERO }
    }
}

/// The codes of failures that the runner states itself.
const HANDLER_PANICKED: &str = "HANDLER_PANICKED";

impl Attempt {
    pub(crate) fn new(job: JobInfo, worker: WorkerId, runner: Arc<RunnerContext>) -> Arc<Self> {
        Arc::new(Attempt {
            job,
            worker,
            runner,
            stop_token: CancellationToken::new(),
            stop_reason: OnceLock::new(),
            signals: Mutex::new(HandlerSignals::default()),
        })
    }

    /// Asks the handler to stop. The first reason stands.
    pub(crate) fn stop(&self, reason: StopReason) {
        if self.stop_reason.set(reason).is_ok() {
            self.stop_token.cancel();
        }
    }

    pub(crate) fn stop_reason(&self) -> Option<StopReason> {
        self.stop_reason.get().copied()
    }

    /// A heartbeat for its lease, with the progress that none has sent yet.
    pub(crate) fn heartbeat(&self) -> Heartbeat {
        let progress = self.signals().progress.take();
        Heartbeat { id: self.job.id, token: self.job.token, progress }
    }

    pub(crate) fn signals(&self) -> MutexGuard<'_, HandlerSignals> {
        self.signals.lock().expect("no code panics while it holds the signals")
    }

    pub(crate) fn span(&self) -> Span {
        let job = &self.job;
        info_span!(
            "job",
            job.id = %job.id,
            job_type = %job.job_type,
            attempt = job.attempt,
            correlation = %job.correlation,
            tenant = %job.tenant,
            subject = job.subject.as_ref().map(SubjectId::as_str),
            traceparent = job.traceparent.as_ref().map(TraceParent::as_str),
            worker = %self.worker,
        )
    }

    fn ending(&self, result: Result<Option<String>, Fail>) -> AttemptEnd {
        let draft = match result {
            Ok(result) => EndingDraft { result, ..EndingDraft::new(Outcome::Completed) },
            Err(Fail { kind: Kind::Snooze(delay), .. }) => {
                return AttemptEnd::Released { reason: ReleaseReason::Snoozed, delay };
            }
            Err(Fail { kind: Kind::NotStarted, .. }) => {
                return AttemptEnd::released(ReleaseReason::NotStarted);
            }
            Err(Fail { kind: Kind::AwaitsChildren, .. }) => {
                return AttemptEnd::released(ReleaseReason::AwaitsChildren);
            }
            // The handler stopped because the lease seemed lost; no client cancelled the job.
            Err(Fail { kind: Kind::Cancelled, .. })
                if self.stop_reason() == Some(StopReason::LeaseLost) =>
            {
                return AttemptEnd::released(ReleaseReason::Released);
            }
            Err(fail) => fail.draft(),
        };
        let signals = self.signals();
        let draft = EndingDraft {
            message: signals.message.clone(),
            result_url: signals.result_url.clone(),
            ..draft
        };
        AttemptEnd::Settled(sendable_ending(draft))
    }
}

/// Runs a handler to its end; catches its panics.
pub(crate) async fn run(
    handler_fn: &HandlerFn,
    payload: JsonText,
    attempt: &Arc<Attempt>,
) -> AttemptEnd {
    let span = attempt.span();
    let handler = async {
        let mut handler = DropGuard(Some(handler_fn(payload, Context(attempt.clone()))));
        handler.0.as_mut().expect("only the drop empties the guard").await
    };
    let result = AssertUnwindSafe(handler).catch_unwind().instrument(span.clone()).await;
    let result = result.unwrap_or_else(|panic| Err(fail_of_panic(&*panic)));
    span.in_scope(|| attempt.ending(result))
}

pub(crate) fn timed_out(timeout: Duration) -> AttemptEnd {
    let message = format!("the handler took longer than {} s", timeout.as_secs());
    AttemptEnd::Settled(sendable_ending(
        Fail::retry(engine::failure_codes::HANDLER_TIMEOUT, message).draft(),
    ))
}

/// A report that can be sent. An invalid code or message must not make the job run again: invalid
/// fields are left out, and the message says so.
fn sendable_ending(draft: EndingDraft) -> Ending {
    let problems = match draft.check() {
        Ok(ending) => return ending,
        Err(problems) => problems,
    };
    let problem_list: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let problem_list = problem_list.join("; ");
    warn!(problems = problem_list, "invalid fields of the handler's report were left out");
    let is_invalid = |field: &str| problems.iter().any(|problem| problem.field == field);
    let valid = EndingDraft {
        error_code: draft.error_code.filter(|_| !is_invalid("errorCode")),
        error_message: draft.error_message.filter(|_| !is_invalid("errorMessage")),
        retry_after_seconds: draft.retry_after_seconds.filter(|_| !is_invalid("retryAfterSeconds")),
        message: Some(append_note(draft.message.filter(|_| !is_invalid("message")), &problem_list)),
        result: draft.result.filter(|_| !is_invalid("result")),
        result_url: draft.result_url.filter(|_| !is_invalid("resultUrl")),
        ..draft
    };
    valid.check().expect("all invalid fields are left out")
}

fn append_note(message: Option<String>, problem_list: &str) -> String {
    let note = format!("left out: {problem_list}").replace('\0', " ");
    message.map_or(note.clone(), |message| format!("{message} ({note})"))
}

fn fail_of_panic(panic: &(dyn Any + Send)) -> Fail {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let text = text.unwrap_or("the panic has no message").replace('\0', " ");
    Fail::retry(HANDLER_PANICKED, format!("the handler panicked: {text}"))
}

/// A handler that may panic while it is dropped.
struct DropGuard(Option<Running>);

impl Drop for DropGuard {
    /// A handler that is cut off may panic while it cleans up. The panic must not reach the runner.
    fn drop(&mut self) {
        let running = self.0.take();
        drop(catch_unwind(AssertUnwindSafe(|| drop(running))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_oversized_result_is_dropped_and_the_outcome_kept() {
        let draft = EndingDraft {
            result: Some(format!("\"{}\"", "x".repeat(5_000))),
            result_url: Some("https://example.org/result".into()),
            ..EndingDraft::new(Outcome::Completed)
        };
        let ending = sendable_ending(draft);
        let message = ending.message.unwrap();
        assert!(message.starts_with("left out: result"), "{message}");
        assert!(matches!(
            ending.kind,
            engine::EndingKind::Completed { result: None, result_url: Some(_) }
        ));
    }

    #[test]
    fn a_code_that_is_none_is_left_out() {
        let ending = sendable_ending(Fail::retry("no code", "x").draft());
        let engine::EndingKind::Failed { failure, .. } = ending.kind else {
            panic!("still a failure")
        };
        assert_eq!(failure.code.as_str(), "HANDLER_FAILED");
        assert_eq!(failure.message.as_deref(), Some("x"));
    }
}
