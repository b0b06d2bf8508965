//! A program or an address as the registration of a runner, in the server or at a client.

use consign::{Context, Fail, Registration, StopReason, on};
use outbound::{Exec, Forbidden, HandlerEnding, HandlerOutcome, JobPayload, Push};
use std::{future::pending, sync::Arc, time::Duration};
use tokio::{select, time::timeout};
use tracing::warn;
use wire::{Json, PayloadVersion};

pub(super) enum Handler {
    Exec(Exec),
    Push(Push),
    /// An address that the server must not contact: every job fails, and says so.
    Forbidden(Forbidden),
}

pub(super) fn registration(job_type: &str, handler: Handler) -> Registration {
    let handler = Arc::new(handler);
    on(job_type, move |payload: Json, context: Context| {
        let handler = handler.clone();
        async move {
            let outcome = match &*handler {
                Handler::Exec(exec) => run_exec(exec, &context, payload).await,
                Handler::Push(push) => {
                    push.run(&job_payload(&context, payload), stop_requested(&context)).await
                }
                Handler::Forbidden(reason) => {
                    return Err(Fail::for_good("ADDRESS_FORBIDDEN", *reason));
                }
            };
            report(&context, outcome).await
        }
    })
}

pub(crate) async fn run_exec(exec: &Exec, context: &Context, payload: Json) -> HandlerOutcome {
    let job_payload = job_payload(context, payload);
    let report_progress = |percent: u8, note: &str| context.progress(percent, note);
    select! {
        outcome = exec.run(&job_payload, &report_progress, may_still_end(context)) => outcome,
        () = attempt_is_over(context) => HandlerEnding::Stopped.into(),
    }
}

/// Completes when the program should stop, and has the grace period for it.
async fn may_still_end(context: &Context) {
    match context.stop_requested().await {
        StopReason::Cancelled | StopReason::Stopping => {}
        StopReason::LeaseLost | StopReason::TimedOut => pending().await,
    }
}

/// Completes when the attempt is over: the next one may begin at once, so the program is killed
/// without a grace period.
async fn attempt_is_over(context: &Context) {
    match context.stop_requested().await {
        StopReason::LeaseLost | StopReason::TimedOut => {}
        StopReason::Cancelled | StopReason::Stopping => pending().await,
    }
}

async fn stop_requested(context: &Context) {
    context.stop_requested().await;
}

fn job_payload(context: &Context, payload: Json) -> JobPayload {
    let job = context.job();
    JobPayload {
        job_id: job.id.to_string(),
        job_type: job.job_type.to_string(),
        tenant: job.tenant.to_string(),
        subject_id: job.subject.as_ref().map(ToString::to_string),
        correlation_id: job.correlation.to_string(),
        attempt: job.attempt,
        max_attempts: job.max_attempts,
        redrive_count: job.redrive_count,
        priority: job.priority.number(),
        created_at: job.created_at.into(),
        parent_id: job.parent.map(|parent| parent.to_string()),
        traceparent: job.traceparent.as_ref().map(ToString::to_string),
        payload_version: job.payload_version.as_ref().map(PayloadVersion::from),
        payload,
    }
}

/// How long a slot waits after a program or push could not start. The same would most likely happen
/// again at once.
const EXHAUSTED_WAIT: Duration = Duration::from_secs(1);

/// Translates the ending of a program or a push into the handler's result.
pub(crate) async fn report(
    context: &Context,
    outcome: HandlerOutcome,
) -> Result<Option<Json>, Fail> {
    if let Some(message) = outcome.message {
        context.message(message);
    }
    match outcome.ending {
        HandlerEnding::NotStarted(failure) => {
            let job = context.job();
            warn!(
                job.id = %job.id, job_type = %job.job_type, code = failure.code, error = failure.message,
                "the job was given back before its handler started: this machine lacks descriptors, processes or memory"
            );
            drop(timeout(EXHAUSTED_WAIT, stop_requested(context)).await);
            Err(Fail::not_started())
        }
        HandlerEnding::Completed { result } => Ok(result),
        HandlerEnding::Retry { failure, after } => {
            let fail = Fail::retry(&failure.code, failure.message);
            Err(if let Some(wait) = after { fail.after(wait) } else { fail })
        }
        HandlerEnding::ForGood(failure) => Err(Fail::for_good(&failure.code, failure.message)),
        HandlerEnding::Stopped => Err(Fail::cancelled()),
    }
}
