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
use engine::{Denied, FieldProblem, JobType, Policy, PolicyDraft, ReadyMadeDraft, Right, Scope};
use platform::JobTypePolicy;
use serde::Deserialize;
use serde_json::value::RawValue;
use wire::{Page, PolicyPatch, PolicySet, SettingBody, TypePolicy, TypeWithPolicy};

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
            TypeWithPolicy::new(&known_type.job_type, &known_type.policy, known_type.source);
        with_policy.policy.handler = with_policy.policy.handler.filter(|_| shows_handlers);
        with_policy
    };
    Ok(Json(query.page_of(types, key, to_type)))
}

pub(crate) async fn set(
    context: RequestContext,
    Type(job_type): Type,
    body: PolicyBody<TypePolicy>,
) -> Reply<SetAnswer> {
    change(context, job_type, body, |policy, _| policy.clone()).await
}

/// Changes the given fields alone. Two callers that change different fields do not undo each other.
pub(crate) async fn patch(
    context: RequestContext,
    Type(job_type): Type,
    body: PolicyBody<PolicyPatch>,
) -> Reply<SetAnswer> {
    let merged = |patch: &PolicyPatch, before: Option<&Policy>| {
        let default_policy = Policy::default();
        patch.apply(TypePolicy::from(before.unwrap_or(&default_policy)))
    };
    change(context, job_type, body, merged).await
}

type SetAnswer = (HeaderMap, Json<PolicySet>);

/// Sets the policy that `wanted` makes of the body and of the present policy. A policy holds for
/// all tenants, so only a caller for all tenants may set it.
async fn change<T>(
    context: RequestContext,
    job_type: JobType,
    PolicyBody { policy, body_type }: PolicyBody<T>,
    wanted: impl Fn(&T, Option<&Policy>) -> TypePolicy,
) -> Reply<SetAnswer> {
    if *context.scope() != Scope::All {
        return Err(Denied::Tenants.into());
    }
    context.grant().may_whole_type(&job_type)?;
    if body_type.is_some_and(|body_type| body_type != job_type.as_str()) {
        return Err(FieldProblem::new("jobType", "must be the type in the path").into());
    }
    let actor = context.actor();
    let draft_of = |before: Option<&Policy>| {
        let draft = wanted(&policy, before).to_draft()?;
        check_handler(&context, before, &draft)?;
        Ok::<_, ApiError>(draft)
    };
    let set = context.node().change_policy(job_type, Some(&actor), draft_of).await?;
    let answer = TypeWithPolicy::new(&set.job_type, &set.policy, set.source).into_set();
    Ok((context.app.confirmation_headers().await, Json(answer)))
}

/// A policy, and the type that its body names. A body copied from a list is accepted, but only for
/// the type that it came from.
pub(crate) struct PolicyBody<T> {
    policy: T,
    body_type: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", expecting = "an object")]
struct NamedType {
    job_type: Option<String>,
}

impl<T: SettingBody> FromRequest<AppState> for PolicyBody<T> {
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
fn check_handler(
    context: &RequestContext,
    before: Option<&Policy>,
    draft: &PolicyDraft,
) -> Reply<()> {
    let Some(Ok(after)) = draft.handler.as_ref().map(ReadyMadeDraft::check) else { return Ok(()) };
    let before = before.and_then(|policy| policy.handler.as_ref());
    if before == Some(&after) {
        return Ok(());
    }
    context.grant().may_name_handlers()?;
    Ok(context.app.settings.handlers.check_change(before, Some(&after))?)
}
