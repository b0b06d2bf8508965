//! Queues: what is waiting, and which workers could take it.

use super::page::PageQuery;
use crate::{
    context::RequestContext,
    error::{ApiError, Reply},
    extract::{OptionalSettingsBody, QueryParams, Type},
};
use axum::{Json, http::HeaderMap};
use engine::{JobType, Scope};
use wire::{Page, PauseRequest, QueueShape, ResumeRequest, codes, named_scope};

pub(crate) async fn all(
    context: RequestContext,
    params: QueryParams,
) -> Reply<Json<Page<QueueShape>>> {
    let query = PageQuery::with(&params, &["tenant"])?;
    let queues = seen(&context, &named_scope(context.scope(), params.get("tenant"))?).await?;
    Ok(Json(query.cut(queues, |queue| queue.job_type.clone().into_bytes(), QueueShape::clone)))
}

pub(crate) async fn one(
    context: RequestContext,
    params: QueryParams,
    Type(job_type): Type,
) -> Reply<Json<QueueShape>> {
    params.only(&["tenant"])?;
    let scope = named_scope(context.scope(), params.get("tenant"))?;
    let queue = named(&context, &scope, &job_type).await?;
    let none = || ApiError::stated(codes::QUEUE_NOT_FOUND, "no job of this type has come yet");
    queue.map(Json).ok_or_else(none)
}

pub(crate) async fn pause(
    context: RequestContext,
    Type(job_type): Type,
    OptionalSettingsBody(request): OptionalSettingsBody<PauseRequest>,
) -> Reply<(HeaderMap, Json<QueueShape>)> {
    context.grant().may_whole_type(&job_type)?;
    let (scope, reason) = request.check(context.scope())?;
    // The audit entry belongs to the tenant whose queue it is: its operators read why nothing runs.
    let actor = context.actor().within(scope.clone());
    context.node().pause(&scope, job_type.clone(), reason.as_ref(), Some(&actor)).await?;
    set(&context, &scope, &job_type, true).await
}

pub(crate) async fn resume(
    context: RequestContext,
    Type(job_type): Type,
    OptionalSettingsBody(request): OptionalSettingsBody<ResumeRequest>,
) -> Reply<(HeaderMap, Json<QueueShape>)> {
    context.grant().may_whole_type(&job_type)?;
    let scope = named_scope(context.scope(), request.tenant.as_deref())?;
    let actor = context.actor().within(scope.clone());
    context.node().resume(&scope, job_type.clone(), Some(&actor)).await?;
    set(&context, &scope, &job_type, false).await
}

/// Answers with the queue as soon as the change is in force. A queue may be paused before its first
/// job.
async fn set(
    context: &RequestContext,
    scope: &Scope,
    job_type: &JobType,
    paused: bool,
) -> Reply<(HeaderMap, Json<QueueShape>)> {
    let headers = context.app.in_force().await;
    let queue = named(context, scope, job_type).await?;
    let new = || QueueShape { job_type: job_type.to_string(), paused, ..QueueShape::default() };
    Ok((headers, Json(queue.unwrap_or_else(new))))
}

/// The queues of `scope` that this caller may see.
pub(super) async fn seen(context: &RequestContext, scope: &Scope) -> Reply<Vec<QueueShape>> {
    let summaries = context.node().queue_summaries(scope).await?;
    let within = summaries.iter().filter(|one| context.grant().may_type(&one.job_type).is_ok());
    Ok(within.map(shown).collect())
}

async fn named(
    context: &RequestContext,
    scope: &Scope,
    job_type: &JobType,
) -> Reply<Option<QueueShape>> {
    context.grant().may_type(job_type)?;
    let mut queues = seen(context, scope).await?.into_iter();
    Ok(queues.find(|queue| queue.job_type == job_type.as_str()))
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
