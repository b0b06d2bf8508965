//! Queues: what waits, and who could take it.

use crate::{
    Door,
    auth::Caller,
    guard::Correlation,
    no::{No, Reply},
    sent::Type,
};
use axum::{Json, extract::State};
use engine::JobType;
use wire::{Page, QueueShape, codes};

pub(crate) async fn all(State(door): State<Door>, caller: Caller) -> Reply<Json<Page<QueueShape>>> {
    Ok(Json(Page { items: seen(&door, &caller).await?, next_cursor: None }))
}

pub(crate) async fn one(
    State(door): State<Door>,
    caller: Caller,
    Type(job_type): Type,
) -> Reply<Json<QueueShape>> {
    Ok(Json(named(&door, &caller, &job_type).await?))
}

pub(crate) async fn pause(
    State(door): State<Door>,
    caller: Caller,
    correlation: Correlation,
    Type(job_type): Type,
) -> Reply<Json<QueueShape>> {
    caller.grant().may_whole_type(&job_type)?;
    door.by(&caller, &correlation).pause(caller.scope(), job_type.clone()).await?;
    Ok(Json(named_or_new(&door, &caller, &job_type, true).await?))
}

pub(crate) async fn resume(
    State(door): State<Door>,
    caller: Caller,
    correlation: Correlation,
    Type(job_type): Type,
) -> Reply<Json<QueueShape>> {
    caller.grant().may_whole_type(&job_type)?;
    door.by(&caller, &correlation).resume(caller.scope(), job_type.clone()).await?;
    Ok(Json(named_or_new(&door, &caller, &job_type, false).await?))
}

/// The queues that this caller may see.
pub(super) async fn seen(door: &Door, caller: &Caller) -> Reply<Vec<QueueShape>> {
    let summaries = door.node.queue_summaries(caller.scope()).await?;
    let within = summaries.iter().filter(|one| caller.grant().may_type(&one.job_type).is_ok());
    Ok(within.map(shown).collect())
}

async fn named(door: &Door, caller: &Caller, job_type: &JobType) -> Reply<QueueShape> {
    caller.grant().may_type(job_type)?;
    let mut queues = seen(door, caller).await?.into_iter();
    let found = queues.find(|queue| queue.job_type == job_type.as_str());
    found.ok_or_else(|| No::stated(codes::QUEUE_NOT_FOUND, "no job of this type has come yet"))
}

/// A queue may be paused before its first job comes.
async fn named_or_new(
    door: &Door,
    caller: &Caller,
    job_type: &JobType,
    paused: bool,
) -> Reply<QueueShape> {
    match named(door, caller, job_type).await {
        Err(No::Stated(codes::QUEUE_NOT_FOUND, _)) => Ok(QueueShape {
            job_type: job_type.to_string(),
            queued: 0,
            due: 0,
            oldest_age_seconds: None,
            running: 0,
            poisoned: 0,
            paused,
            live_workers: 0,
        }),
        found => found,
    }
}

fn shown(summary: &platform::QueueSummary) -> QueueShape {
    QueueShape {
        job_type: summary.job_type.to_string(),
        queued: summary.queued,
        due: summary.due,
        oldest_age_seconds: summary.oldest_age.map(|age| age.as_secs()),
        running: summary.running,
        poisoned: summary.poisoned,
        paused: summary.paused,
        live_workers: summary.live_workers,
    }
}
