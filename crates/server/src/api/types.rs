//! Job types, and the policies of their jobs.

use super::page::PageQuery;
use crate::{
    AppState,
    context::RequestContext,
    error::{ApiError, Reply},
    extract::{JsonBody, QueryParams, Type},
};
use axum::{
    Json,
    extract::{FromRequest, Request},
    http::HeaderMap,
};
use engine::{Denied, FieldProblem, JobType, PolicyDraft, ReadyMadeDraft, Right, Scope};
use platform::JobTypePolicy;
use serde::Deserialize;
use serde_json::value::RawValue;
use wire::{Page, TypePolicy, TypeWithPolicy};

pub(crate) async fn all(
    context: RequestContext,
    params: QueryParams,
) -> Reply<Json<Page<TypeWithPolicy>>> {
    let query = PageQuery::of(&params)?;
    let mut types = context.node().types(context.scope()).await?;
    types.retain(|known_type| context.grant().may_type(&known_type.job_type).is_ok());
    // Internal URLs and command lines are shown only to callers who could have set them.
    let shows_handlers = *context.scope() == Scope::All && context.caller.may(Right::Admin);
    let key = |known_type: &JobTypePolicy| known_type.job_type.as_str().as_bytes().to_vec();
    let to_type = |known_type: &JobTypePolicy| {
        let mut with_policy =
            TypeWithPolicy::new(&known_type.job_type, &known_type.policy, known_type.declared);
        with_policy.policy.handler = with_policy.policy.handler.filter(|_| shows_handlers);
        with_policy
    };
    Ok(Json(query.page_of(types, key, to_type)))
}

/// A policy holds for all tenants, so only a caller for all tenants may set it.
pub(crate) async fn set(
    context: RequestContext,
    Type(job_type): Type,
    PolicyBody { policy, body_type }: PolicyBody,
) -> Reply<(HeaderMap, Json<TypeWithPolicy>)> {
    if *context.scope() != Scope::All {
        return Err(Denied::Tenants.into());
    }
    context.grant().may_whole_type(&job_type)?;
    if body_type.is_some_and(|body_type| body_type != job_type.as_str()) {
        return Err(FieldProblem::new("jobType", "must be the type in the path").into());
    }
    let draft = policy.to_draft()?;
    check_handler(&context, &job_type, &draft).await?;
    let actor = context.actor();
    let policy = context.node().set_policy(job_type.clone(), &draft, Some(&actor)).await?;
    Ok((
        context.app.confirmation_headers().await,
        Json(TypeWithPolicy::new(&job_type, &policy, true)),
    ))
}

/// A policy, and the type that its body names. A body copied from a list is accepted, but only for
/// the type that it came from.
pub(crate) struct PolicyBody {
    policy: TypePolicy,
    body_type: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", expecting = "an object")]
struct NamedType {
    job_type: Option<String>,
}

impl FromRequest<AppState> for PolicyBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &AppState) -> Result<Self, ApiError> {
        let JsonBody(body, _permit) = JsonBody::<Box<RawValue>>::from_request(request, app).await?;
        let body = body.get().as_bytes();
        let policy = wire::read_setting(body)?;
        let NamedType { job_type: body_type } = wire::read(body)?;
        Ok(PolicyBody { policy, body_type })
    }
}

/// A changed handler needs a grant without limits, and a setting that lets the API name handlers.
/// An invalid handler is left to the check that reports every field.
async fn check_handler(
    context: &RequestContext,
    job_type: &JobType,
    draft: &PolicyDraft,
) -> Reply<()> {
    let Some(Ok(after)) = draft.handler.as_ref().map(ReadyMadeDraft::check) else { return Ok(()) };
    let policies = context.node().policies().await?;
    let before = policies.get(job_type).and_then(|policy| policy.handler.as_ref());
    if before == Some(&after) {
        return Ok(());
    }
    context.grant().may_name_handlers()?;
    Ok(context.app.settings.handlers.check_change(before, Some(&after))?)
}
