//! Queues: what waits, and who could take it.

use super::page::PageQuery;
use crate::{
    Door,
    auth::Caller,
    guard::Correlation,
    no::{No, Reply},
    sent::{Params, SettingOrNothing, Type},
};
use axum::{Json, extract::State, http::HeaderMap};
use engine::{JobType, Scope};
use wire::{Page, PauseRequest, QueueShape, ResumeRequest, codes};

pub(crate) async fn all(
    State(door): State<Door>,
    caller: Caller,
    params: Params,
) -> Reply<Json<Page<QueueShape>>> {
    let query = PageQuery::with(&params, &["tenant"])?;
    let scope = wire::named_scope(caller.scope(), params.get("tenant"))?;
    let queues = seen(&door, &caller, &scope).await?;
    Ok(Json(query.cut(queues, |queue| queue.job_type.clone().into_bytes(), QueueShape::clone)))
}

pub(crate) async fn one(
    State(door): State<Door>,
    caller: Caller,
    params: Params,
    Type(job_type): Type,
) -> Reply<Json<QueueShape>> {
    params.only(&["tenant"])?;
    let scope = wire::named_scope(caller.scope(), params.get("tenant"))?;
    Ok(Json(named(&door, &caller, &scope, &job_type).await?))
}

pub(crate) async fn pause(
    State(door): State<Door>,
    caller: Caller,
    correlation: Correlation,
    Type(job_type): Type,
    SettingOrNothing(request): SettingOrNothing<PauseRequest>,
) -> Reply<(HeaderMap, Json<QueueShape>)> {
    caller.grant().may_whole_type(&job_type)?;
    let (scope, reason) = request.check(caller.scope())?;
    // The entry belongs to the tenant whose queue it is: its operators read why nothing runs.
    let actor = caller.actor(&correlation).within(scope.clone());
    door.node.pause(&scope, job_type.clone(), reason.as_ref(), Some(&actor)).await?;
    let headers = door.in_force().await;
    Ok((headers, Json(named_or_new(&door, &caller, &scope, &job_type, true).await?)))
}

pub(crate) async fn resume(
    State(door): State<Door>,
    caller: Caller,
    correlation: Correlation,
    Type(job_type): Type,
    SettingOrNothing(request): SettingOrNothing<ResumeRequest>,
) -> Reply<(HeaderMap, Json<QueueShape>)> {
    caller.grant().may_whole_type(&job_type)?;
    let scope = wire::named_scope(caller.scope(), request.tenant.as_deref())?;
    let actor = caller.actor(&correlation).within(scope.clone());
    door.node.resume(&scope, job_type.clone(), Some(&actor)).await?;
    let headers = door.in_force().await;
    Ok((headers, Json(named_or_new(&door, &caller, &scope, &job_type, false).await?)))
}

/// The queues of `scope` that this caller may see.
pub(super) async fn seen(door: &Door, caller: &Caller, scope: &Scope) -> Reply<Vec<QueueShape>> {
    let summaries = door.node.queue_summaries(scope).await?;
    let within = summaries.iter().filter(|one| caller.grant().may_type(&one.job_type).is_ok());
    Ok(within.map(shown).collect())
}

async fn named(
    door: &Door,
    caller: &Caller,
    scope: &Scope,
    job_type: &JobType,
) -> Reply<QueueShape> {
    caller.grant().may_type(job_type)?;
    let mut queues = seen(door, caller, scope).await?.into_iter();
    let found = queues.find(|queue| queue.job_type == job_type.as_str());
    found.ok_or_else(|| No::stated(codes::QUEUE_NOT_FOUND, "no job of this type has come yet"))
}

/// A queue may be paused before its first job comes.
async fn named_or_new(
    door: &Door,
    caller: &Caller,
    scope: &Scope,
    job_type: &JobType,
    paused: bool,
) -> Reply<QueueShape> {
    match named(door, caller, scope, job_type).await {
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
