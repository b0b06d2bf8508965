//! Queues: what is waiting, and which workers could take it.

use super::page::PageQuery;
use crate::{
    context::RequestContext,
    error::{ApiError, Reply},
    extract::{OptionalSettingsBody, QueryParams, Type},
};
use axum::{Json, http::HeaderMap};
use engine::{JobType, Scope};
use wire::{
    PAUSES_MAX, Page, PauseRequest, QueuePause, QueueStatus, ResumeRequest, codes, named_scope,
};

pub(crate) async fn all(
    context: RequestContext,
    params: QueryParams,
) -> Reply<Json<Page<QueueStatus>>> {
    let query = PageQuery::with(&params, &["tenant"])?;
    let queues =
        visible_queues(&context, &named_scope(context.scope(), params.get("tenant"))?).await?;
    Ok(Json(query.page_of(queues, |queue| queue.job_type.clone().into_bytes(), QueueStatus::clone)))
}

pub(crate) async fn one(
    context: RequestContext,
    params: QueryParams,
    Type(job_type): Type,
) -> Reply<Json<QueueStatus>> {
    params.refuse_unknown(&["tenant"])?;
    let scope = named_scope(context.scope(), params.get("tenant"))?;
    let queue = find_queue(&context, &scope, &job_type).await?;
    let not_found =
        || ApiError::with_code(codes::QUEUE_NOT_FOUND, "no job of this type has come yet");
    queue.map(Json).ok_or_else(not_found)
}

pub(crate) async fn pause(
    context: RequestContext,
    Type(job_type): Type,
    OptionalSettingsBody(request): OptionalSettingsBody<PauseRequest>,
) -> Reply<(HeaderMap, Json<QueueStatus>)> {
    context.grant().may_whole_type(&job_type)?;
    let (scope, reason) = request.check(context.scope())?;
    // The audit entry belongs to the tenant whose queue it is: its operators read why nothing runs.
    let actor = context.actor().within(scope.clone());
    context.node().pause(&scope, job_type.clone(), reason.as_ref(), Some(&actor)).await?;
    answer_when_confirmed(&context, &scope, &job_type).await
}

pub(crate) async fn resume(
    context: RequestContext,
    Type(job_type): Type,
    OptionalSettingsBody(request): OptionalSettingsBody<ResumeRequest>,
) -> Reply<(HeaderMap, Json<QueueStatus>)> {
    context.grant().may_whole_type(&job_type)?;
    let scope = named_scope(context.scope(), request.tenant.as_deref())?;
    let actor = context.actor().within(scope.clone());
    context.node().resume(&scope, job_type.clone(), Some(&actor)).await?;
    answer_when_confirmed(&context, &scope, &job_type).await
}

/// Answers with the queue as soon as the change is in force. There may be no job of the type yet.
async fn answer_when_confirmed(
    context: &RequestContext,
    scope: &Scope,
    job_type: &JobType,
) -> Reply<(HeaderMap, Json<QueueStatus>)> {
    let headers = context.app.confirmation_headers().await;
    let queue = find_queue(context, scope, job_type).await?;
    if let Some(queue) = queue {
        return Ok((headers, Json(queue)));
    }
    let (job_type, known) =
        (job_type.to_string(), context.node().is_known_type(scope, job_type).await?);
    Ok((headers, Json(QueueStatus { job_type, known, ..QueueStatus::default() })))
}

/// The queues of `scope` that this caller may see. A caller for all tenants who asks for one sees
/// who paused a queue, whosever it is.
async fn visible_queues(context: &RequestContext, scope: &Scope) -> Reply<Vec<QueueStatus>> {
    let may_see = |job_type: &JobType| context.grant().may_type(job_type).is_ok();
    let sums = context.node().queue_sums(scope, &may_see).await?;
    let types = sums.types.into_iter();
    Ok(match context.scope() {
        Scope::All => types.map(|summary| queue_status(&summary)).collect(),
        Scope::One(_) => types.map(|summary| queue_status(&summary.for_one_tenant())).collect(),
    })
}

async fn find_queue(
    context: &RequestContext,
    scope: &Scope,
    job_type: &JobType,
) -> Reply<Option<QueueStatus>> {
    context.grant().may_type(job_type)?;
    let mut queues = visible_queues(context, scope).await?.into_iter();
    Ok(queues.find(|queue| queue.job_type == job_type.as_str()))
}

fn queue_status(summary: &platform::QueueSummary) -> QueueStatus {
    QueueStatus {
        job_type: summary.job_type.to_string(),
        queued: summary.queued,
        due: summary.due,
        oldest_age_seconds: summary.oldest_age.map(|age| age.as_secs()),
        running: summary.running,
        poisoned: summary.poisoned,
        paused: summary.paused,
        pauses: summary.pauses.iter().take(PAUSES_MAX).map(QueuePause::from).collect(),
        live_workers: summary.live_workers,
        known: summary.is_known,
    }
}
