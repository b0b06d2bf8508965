//! A program or an address as the duty of a runner, whichever side of the door the runner is on.

use consign::{Context, Duty, Fail, on};
use outbound::{Ended, Errand, Exec, Forbidden, How, Push};
use std::{sync::Arc, time::Duration};
use tokio::time::sleep;
use tracing::warn;
use wire::{Json, PayloadVersionShape};

/// Runs a program for each job of a type.
pub(super) fn exec_duty(job_type: &str, exec: Exec) -> Duty {
    let exec = Arc::new(exec);
    on(job_type, move |payload: Json, context: Context| {
        let exec = exec.clone();
        async move {
            let ended = run_exec(&exec, &context, payload).await;
            report(&context, ended).await
        }
    })
}

/// Runs a program for one attempt.
pub(crate) async fn run_exec(exec: &Exec, context: &Context, payload: Json) -> Ended {
    let errand = errand(context, payload);
    let tell = |percent: u8, note: &str| context.progress(percent, note);
    exec.run(&errand, &tell, stopped(context)).await
}

/// Pushes each job of a type to an address.
pub(super) fn push_duty(job_type: &str, push: Push) -> Duty {
    let push = Arc::new(push);
    on(job_type, move |payload: Json, context: Context| {
        let push = push.clone();
        async move {
            let ended = push.run(&errand(&context, payload), stopped(&context)).await;
            report(&context, ended).await
        }
    })
}

/// Fails each job of a type whose address is none that we go to.
pub(super) fn forbidden_duty(job_type: &str, why: Forbidden) -> Duty {
    on(job_type, move |_: Json, _: Context| async move {
        Err::<(), _>(Fail::for_good("ADDRESS_FORBIDDEN", why))
    })
}

async fn stopped(context: &Context) {
    context.cancelled().await;
}

fn errand(context: &Context, payload: Json) -> Errand {
    let job = context.job();
    Errand {
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
        payload_version: job.payload_version.as_ref().map(PayloadVersionShape::from),
        payload,
    }
}

/// How long a slot rests after something could not start. The same would most likely happen again
/// at once.
const EXHAUSTED_WAIT: Duration = Duration::from_secs(1);

/// What the ending of a program or a push comes to.
pub(crate) async fn report(context: &Context, ended: Ended) -> Result<Option<Json>, Fail> {
    if let Some(message) = ended.message {
        context.message(message);
    }
    match ended.how {
        How::NotStarted(failure) => {
            let job = context.job();
            warn!(
                job.id = %job.id, job_type = %job.job_type, code = failure.code, error = failure.message,
                "a job was given back untried: this machine lacks descriptors, processes or memory"
            );
            tokio::select! {
                () = sleep(EXHAUSTED_WAIT) => {}
                () = stopped(context) => {}
            }
            Err(Fail::not_started())
        }
        How::Completed { result } => Ok(result),
        How::Retry { failure, after: None } => Err(Fail::retry(&failure.code, failure.message)),
        How::Retry { failure, after: Some(wait) } => {
            Err(Fail::retry(&failure.code, failure.message).after(wait))
        }
        How::ForGood(failure) => Err(Fail::for_good(&failure.code, failure.message)),
        How::Stopped => Err(Fail::cancelled()),
    }
}
