//! The handler's view of its job: facts, progress, steps, children, and the signal to stop.

use crate::{
    attempt::{Attempt, StopReason},
    backend::{Backend, BackendError, BackendFuture, Backoff},
    children::Child,
    fail::Fail,
    job_info::JobInfo,
    request::JobRequest,
};
use engine::{
    JobDraft, JobId, JsonText, ProgressReport, StepAnswer, StepName, StepReport, check_step_result,
};
use serde::{Serialize, de::DeserializeOwned};
use std::{sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

/// One attempt at one job, as its handler sees it. Clones refer to the same attempt.
#[derive(Clone)]
pub struct Context(pub(crate) Arc<Attempt>);

/// Whether a step begins for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepState {
    /// No attempt has begun it before.
    New,
    /// An attempt began it and did not finish it: its effects may have happened, wholly or in part.
    Interrupted,
}

/// How often a call of a handler is retried while the backend cannot be reached: for about half a
/// minute.
const TRIES_MAX: usize = 12;

impl Context {
    /// The job: type, subject, correlation, priority, when it was submitted, …
    pub fn job(&self) -> &JobInfo {
        &self.0.job
    }

    /// The job's id.
    pub fn job_id(&self) -> JobId {
        self.0.job.id
    }

    /// 1 during the first attempt.
    pub fn attempt(&self) -> u32 {
        self.0.job.attempt
    }

    /// Whether a failure now would end the job.
    pub fn is_last_attempt(&self) -> bool {
        self.0.job.attempt >= self.0.job.max_attempts
    }

    /// Reports progress: 0 to 100, and a few words. Clients see it in the status with the next
    /// heartbeat, within a second. Reports in between are not kept.
    pub fn progress(&self, percent: u8, note: impl Into<String>) {
        let note = note.into().replace('\0', " ");
        let report = ProgressReport::check(percent.min(100).into(), Some(&note));
        self.0.signals().progress = report.ok();
        self.0.runner.progress_made.notify_one();
    }

    /// A sentence for people, kept with the outcome.
    pub fn message(&self, message: impl Into<String>) {
        self.0.signals().message = Some(message.into());
    }

    /// The address of a result that is too large to be kept with the job.
    pub fn result_url(&self, url: impl Into<String>) {
        self.0.signals().result_url = Some(url.into());
    }

    /// Why the handler should stop, if it should.
    pub fn stop_reason(&self) -> Option<StopReason> {
        self.0.stop_reason()
    }

    /// Waits until the handler should stop. A handler then returns `Err(Fail::cancelled())`.
    pub async fn stop_requested(&self) -> StopReason {
        self.0.stop_token.cancelled().await;
        self.0.stop_reason().expect("the reason is set first")
    }

    /// The signal to stop, as a token for libraries that take one.
    pub fn cancellation_token(&self) -> CancellationToken {
        // A child token: a library that cancels its own token when it is done cancels no job.
        self.0.stop_token.child_token()
    }

    /// Whether the runner stops. A handler with long work may give its job back with
    /// [`Fail::snooze`] before the runner gives it back.
    pub fn is_runner_stopping(&self) -> bool {
        self.0.runner.stopping.is_cancelled()
    }

    /// Waits until the runner stops. Most of the grace time is left then.
    pub async fn runner_stopping(&self) {
        self.0.runner.stopping.cancelled().await;
    }

    /// Sleeps, and wakes up early if the handler should stop. In a test, the test's clock counts.
    pub async fn sleep(&self, span: Duration) -> Result<(), Fail> {
        tokio::select! {
            biased;
            _ = self.0.stop_token.cancelled() => Err(Fail::cancelled()),
            () = self.0.runner.time.sleep(span) => Ok(()),
        }
    }

    /// Does a part of the job once, however often the job is tried. A step that is done returns the
    /// result of the first time, and `work` is not called.
    ///
    /// If the process dies in the middle of it, the next attempt calls `work` with
    /// [`StepState::Interrupted`]: only your code can find out how far the step came.
    pub async fn step<T, W, A>(&self, name: &str, work: W) -> Result<T, Fail>
    where
        T: Serialize + DeserializeOwned,
        W: FnOnce(StepState) -> A,
        A: Future<Output = Result<T, Fail>>,
    {
        let name = StepName::parse(name)
            .map_err(|problem| Fail::for_good("STEP_NAME", format!("a step's {problem}")))?;
        let state = match self.send_step(&name, None).await? {
            StepAnswer::New => StepState::New,
            StepAnswer::Unfinished => StepState::Interrupted,
            StepAnswer::Done(result) => return read_step_result(&name, &result),
        };
        let value = work(state).await?;
        let result = serde_json::to_string(&value)?;
        let result = check_step_result(&result).map_err(|problem| {
            Fail::for_good("STEP_RESULT", format!("the step {name}: its {problem}"))
        })?;
        match self.send_step(&name, Some(result.clone())).await? {
            StepAnswer::Done(stored) if stored != result => read_step_result(&name, &stored),
            StepAnswer::Done(_) | StepAnswer::New | StepAnswer::Unfinished => Ok(value),
        }
    }

    /// Submits another job as a child of this one, with the same correlation and trace.
    ///
    /// A child without a key gets one from its position among the children of its type, so that a
    /// repeated attempt makes no second child. If attempts may submit different children, or in
    /// another order, give each a [key](JobRequest::idempotency_key) that says what it is about.
    pub async fn submit_child(&self, child: JobRequest) -> Result<JobId, Fail> {
        let draft = child.into_draft().map_err(|error| Fail::for_good("INVALID_FIELD", error))?;
        let draft = self.with_inherited_fields(draft);
        let (backend, tenant) = (self.backend()?, &self.0.job.tenant);
        self.retry_while_unavailable(|| backend.submit(tenant, draft.clone())).await
    }

    /// Returns all children of this job, oldest first, when each of them has ended.
    ///
    /// While one has not, the call fails with a [`Fail`] that the handler returns with `?`. The
    /// job then waits without a slot, and is claimed again as soon as its last child has ended.
    /// The handler runs from its beginning, and this time the call returns. So submit children
    /// with keys (those without one get one by their position), and put other work into
    /// [steps](Context::step). Waiting uses up no attempt.
    ///
    /// A child that failed does not fail this job: the handler decides.
    ///
    /// ```
    /// use worker::{Context, Fail, JobRequest};
    ///
    /// async fn render(context: Context, pages: Vec<u32>) -> Result<usize, Fail> {
    ///     for page in &pages {
    ///         context.submit_child(JobRequest::new("render-page", page)).await?;
    ///     }
    ///     let children = context.wait_for_children().await?;
    ///     if let Some(child) = children.iter().find(|child| !child.is_completed()) {
    ///         return Err(Fail::for_good("PAGE_FAILED", format!("child {}", child.id)));
    ///     }
    ///     Ok(children.len())
    /// }
    /// # drop(render);
    /// ```
    pub async fn wait_for_children(&self) -> Result<Vec<Child>, Fail> {
        let (backend, JobInfo { id, token, .. }) = (self.backend()?, self.job());
        let children = self.retry_while_unavailable(|| backend.children(*id, *token)).await?;
        let all_ended = children.iter().all(|child| child.status.is_ended());
        if all_ended { Ok(children) } else { Err(Fail::awaits_children()) }
    }

    fn with_inherited_fields(&self, mut child: JobDraft) -> JobDraft {
        let job = &self.0.job;
        child.parent_id = Some(job.id.to_string());
        child.correlation_id.get_or_insert_with(|| job.correlation.to_string());
        child.traceparent =
            child.traceparent.or_else(|| job.traceparent.as_ref().map(ToString::to_string));
        child.idempotency_key.get_or_insert_with(|| {
            let mut signals = self.0.signals();
            let number = signals.children.entry(child.job_type.clone()).or_default();
            *number += 1;
            format!("{}.{}/{}/{number}", job.id, job.redrive_count, child.job_type)
        });
        child
    }

    fn backend(&self) -> Result<Arc<dyn Backend>, Fail> {
        let gone = || Fail::retry("RUNNER_GONE", "the runner of this handler is gone");
        self.0.runner.backend.upgrade().ok_or_else(gone)
    }

    async fn send_step(
        &self,
        name: &StepName,
        result: Option<JsonText>,
    ) -> Result<StepAnswer, Fail> {
        let (backend, JobInfo { id, token, .. }) = (self.backend()?, self.job());
        let step = StepReport { id: *id, token: *token, name: name.clone(), result };
        self.retry_while_unavailable(|| backend.step(step.clone())).await
    }

    /// Retries while the backend cannot be reached. Every call made here is safe to repeat.
    async fn retry_while_unavailable<'a, T>(
        &self,
        mut send: impl FnMut() -> BackendFuture<'a, T>,
    ) -> Result<T, Fail> {
        let mut backoff = Backoff::default();
        for _ in 1..TRIES_MAX {
            match send().await {
                Ok(answer) => return Ok(answer),
                Err(BackendError::Refused { code, detail }) => {
                    return Err(fail_of_refusal(&code, &detail));
                }
                // Another process may have another key: the job is tried again, perhaps there.
                Err(BackendError::Unauthorized { code, detail }) => {
                    return Err(Fail::retry(&code, detail));
                }
                Err(error @ (BackendError::Unavailable { .. } | BackendError::Unknown { .. })) => {
                    self.sleep(backoff.after(&error)).await?;
                }
            }
        }
        send().await.map_err(Fail::from)
    }
}

/// A refusal would be repeated by a retry, except where it depends on other jobs or workers.
fn fail_of_refusal(code: &str, detail: &str) -> Fail {
    if code == "IDEMPOTENCY_KEY_REUSED" {
        let remedy = "an earlier attempt submitted another child here: give each a key of its own";
        return Fail::poison(code, format!("{detail}; {remedy}"));
    }
    let may_pass = matches!(code, "QUEUE_FULL" | "LEASE_LOST");
    let fail = if may_pass { Fail::retry } else { Fail::for_good };
    fail(code, detail)
}

/// The result that a finished step returned in an earlier attempt.
fn read_step_result<T: DeserializeOwned>(name: &StepName, result: &JsonText) -> Result<T, Fail> {
    serde_json::from_str(result.as_str()).map_err(|error| {
        let position = format!("line {}, column {}", error.line(), error.column());
        let what = "was stored in a form that this handler cannot read";
        Fail::for_good("STEP_RESULT", format!("the result of the step {name} {what} ({position})"))
    })
}
