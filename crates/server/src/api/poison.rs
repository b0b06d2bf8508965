//! The poison queue: jobs that wait for an operator, and what the operator decides.

use super::{
    bulk::run_to_completion,
    list::{cursor, next_cursor, top},
    status::status_of,
};
use crate::{
    context::RequestContext,
    error::Reply,
    extract::{QueryParams, SettingsBody},
};
use axum::{Json, http::StatusCode};
use engine::{ErrorCode, JobType};
use platform::{JobSelection, PoisonQuery};
use wire::{
    BulkAnswer, PoisonAnswer, PoisonRequest, PoisonSelection, filter::some_jobs, named_scope,
};

pub(crate) async fn list(
    context: RequestContext,
    params: QueryParams,
) -> Reply<Json<PoisonAnswer>> {
    params.refuse_unknown(&["jobType", "tenant", "errorCode", "top", "$top", "cursor"])?;
    let job_type = params.get("jobType").map(JobType::parse).transpose()?;
    let error_code = params.get("errorCode").map(ErrorCode::parse).transpose()?;
    let owner = context.cursor_owner("/api/poison");
    let (before, limit) = (cursor(&context.app, &params, owner).await?, top(&params)?);
    let scope = named_scope(context.scope(), params.get("tenant"))?;
    let query = PoisonQuery { scope, job_type, error_code, before, limit };
    let page = context.node().poisoned(&query, context.grant()).await?;
    let counts = page.reasons.unwrap_or_default().counts.into_iter();
    Ok(Json(PoisonAnswer {
        items: page.jobs.iter().map(|job| status_of(&context.caller, job)).collect(),
        next_cursor: next_cursor(&context.app, owner, page.next)?,
        counts: counts.map(|(code, count)| (code.to_string(), count)).collect(),
    }))
}

pub(crate) async fn redrive(
    context: RequestContext,
    SettingsBody(request): SettingsBody<PoisonRequest>,
) -> Reply<(StatusCode, Json<BulkAnswer>)> {
    let selection = select_jobs(&context, &request, "poison.redrive").await?;
    let matched = run_to_completion(async move {
        let may_touch = |job: &_| context.caller.reaches(job);
        context.node().redrive_matching(context.scope(), selection, &may_touch).await
    });
    Ok((StatusCode::ACCEPTED, Json(BulkAnswer { matched: matched.await?, operation_id: None })))
}

pub(crate) async fn discard(
    context: RequestContext,
    SettingsBody(request): SettingsBody<PoisonRequest>,
) -> Reply<(StatusCode, Json<BulkAnswer>)> {
    let selection = select_jobs(&context, &request, "poison.discard").await?;
    let matched = run_to_completion(async move {
        let may_touch = |job: &_| context.caller.reaches(job);
        context.node().discard_matching(context.scope(), selection, &may_touch).await
    });
    Ok((StatusCode::ACCEPTED, Json(BulkAnswer { matched: matched.await?, operation_id: None })))
}

/// Selects the jobs. The action is recorded before the first of them is touched: each job's history
/// tells the rest.
async fn select_jobs(
    context: &RequestContext,
    request: &PoisonRequest,
    action: &'static str,
) -> Reply<JobSelection> {
    let selection = match request.check()? {
        PoisonSelection::Jobs(ids) => JobSelection::Ids(ids.into_iter().collect()),
        PoisonSelection::Matching(filter) => {
            JobSelection::Matching(some_jobs(filter, context.scope())?)
        }
    };
    let target = match (&request.filter, &request.job_ids) {
        (Some(filter), _) => filter.clone(),
        (None, ids) => ids.as_ref().map_or_else(String::new, |ids| ids.join(" ")),
    };
    context.node().record_action(&context.actor(), action, &target, None).await?;
    Ok(selection)
}
