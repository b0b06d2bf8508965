//! The poison queue: jobs that wait for an operator, and what the operator decides.

use super::{
    bulk::act,
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
use platform::{BulkVerb, PoisonQuery};
use wire::{BulkAnswer, BulkRequest, PoisonAnswer, named_scope};

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
    params: QueryParams,
    SettingsBody(request): SettingsBody<BulkRequest>,
) -> Reply<(StatusCode, Json<BulkAnswer>)> {
    act(context, &params, request, (BulkVerb::RedrivePoisoned, "poison.redrive")).await
}

pub(crate) async fn discard(
    context: RequestContext,
    params: QueryParams,
    SettingsBody(request): SettingsBody<BulkRequest>,
) -> Reply<(StatusCode, Json<BulkAnswer>)> {
    act(context, &params, request, (BulkVerb::DiscardPoisoned, "poison.discard")).await
}
