//! One job: submitted, read, cancelled, redriven, erased.

use super::{
    bulk::run_to_completion,
    page::PageQuery,
    status::status_of,
    submission::{
        draft, first_retry_after, key_header, submitted_job, with_key, with_signed_url,
        without_hidden_job,
    },
};
use crate::{
    context::RequestContext,
    error::{Reply, whole_seconds},
    extract::{Id, JsonBody, NoFields, OptionalSettingsBody, QueryParams},
    middleware::{X_CORRELATION_ID, header_of},
};
use axum::{
    Json,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use engine::{Job, JobDraft, JobId, Right, Scope, Tenant};
use platform::{Actor, CancelledDescendants, RedriveOptions};
use tracing::info;
use wire::{
    CancelAnswer, CancelRequest, Descendants, Explanation, FullJob, JobStatus, Page,
    RedriveRequest, SubmitRequest, Transition, WithDescendants,
};

pub(crate) async fn submit(
    context: RequestContext,
    params: QueryParams,
    headers: HeaderMap,
    JsonBody(request, _permit): JsonBody<SubmitRequest>,
) -> Reply<Response> {
    let signed = with_signed_url(&params, &context.caller)?;
    let request = with_key(request, key_header(&headers)?)?;
    let draft = draft(request, &context)?;
    let tenant = tenant_of(&context, &draft).await?;
    let retry_after = first_retry_after(context.node(), &tenant, &draft);
    let submitted = match context.node().submit(&tenant, draft).await {
        Ok(submitted) => submitted,
        Err(error) => {
            return Err(without_hidden_job(&context, error.into())
                .await
                .retry_after_if_full(retry_after));
        }
    };
    let submitted_job = submitted_job(&context.app, &submitted, signed);
    let location = HeaderValue::from_str(&submitted_job.status_url).expect("an id is plain ASCII");
    let headers = [
        (header::LOCATION, location),
        (header::RETRY_AFTER, whole_seconds(retry_after)),
        (X_CORRELATION_ID, header_of(&submitted.correlation)),
    ];
    Ok((StatusCode::ACCEPTED, headers, Json(submitted_job)).into_response())
}

/// The tenant of a new job: the caller's. A worker that acts for all tenants submits children into
/// the tenant of their parent. Otherwise it would give the children of one tenant's job to another.
async fn tenant_of(context: &RequestContext, draft: &JobDraft) -> Reply<Tenant> {
    let (caller, own) = (&context.caller, context.caller.tenant());
    let parent = draft.parent_id.as_deref().and_then(|id| JobId::parse(id).ok());
    let (Scope::All, Some(parent), true) = (caller.scope(), parent, caller.may(Right::Work)) else {
        return Ok(own);
    };
    match context.node().job(&Scope::All, parent).await {
        Ok(job) => {
            caller.grant().may_touch(&job.envelope)?;
            Ok(job.envelope.tenant.clone())
        }
        Err(platform::Error::Refused(_)) => Ok(own), // a parent that was erased
        Err(error) => Err(error.into()),
    }
}

pub(crate) async fn show(context: RequestContext, Id(id): Id) -> Reply<Json<FullJob>> {
    let job = context.job(id).await?;
    let payload = match context.caller.may(Right::JobsPayload) {
        true => Some(context.node().payload(context.scope(), id).await?),
        false => None,
    };
    if payload.is_some() {
        // Logged and not audited: a read must not cost a commit. A worker's claim is not such a
        // read.
        let (who, correlation) = (&*context.caller.0.who, &context.correlation.id);
        info!(job = %id, tenant = %job.envelope.tenant, who, %correlation, "payload read");
    }
    Ok(Json(FullJob::new(&job, payload.as_ref())))
}

pub(crate) async fn history(
    context: RequestContext,
    Id(id): Id,
    params: QueryParams,
) -> Reply<Json<Page<Transition>>> {
    let query = PageQuery::of(&params)?;
    context.job(id).await?;
    let rows = context.node().history(context.scope(), id, query.after_number()).await?;
    Ok(Json(query.page_of(rows, |row| row.seq.to_be_bytes().to_vec(), |row| Transition::from(row))))
}

pub(crate) async fn explain(context: RequestContext, Id(id): Id) -> Reply<Json<Explanation>> {
    context.job(id).await?;
    let explanation = context.node().explain(context.scope(), id).await?;
    Ok(Json(Explanation::new(explanation.status, &explanation.reasons)))
}

/// Cancels a job by the address of its status, which has no settings.
pub(crate) async fn cancel_status(
    context: RequestContext,
    id: Id,
    _: OptionalSettingsBody<NoFields>,
) -> Reply<(StatusCode, Json<CancelAnswer>)> {
    cancel(context, id, OptionalSettingsBody(CancelRequest::default())).await
}

pub(crate) async fn cancel(
    context: RequestContext,
    Id(id): Id,
    OptionalSettingsBody(request): OptionalSettingsBody<CancelRequest>,
) -> Reply<(StatusCode, Json<CancelAnswer>)> {
    let job = context.job(id).await?;
    let actor = actor_on(&job, &context);
    let (context, job, descendants) = match request.cascade.unwrap_or(false) {
        true => cancel_with_descendants(context, job, actor).await?,
        false => {
            let job = context.node().cancel(context.scope(), id, Some(&actor)).await?;
            (context, job, None)
        }
    };
    let base = status_of(&context.caller, &job);
    let extension = WithDescendants { descendants };
    Ok((StatusCode::ACCEPTED, Json(CancelAnswer { base, extension })))
}

async fn cancel_with_descendants(
    context: RequestContext,
    job: Job,
    actor: Actor,
) -> Reply<(RequestContext, Job, Option<Descendants>)> {
    run_to_completion(async move {
        let may_touch = |job: &_| context.caller.reaches(job);
        let cancel = context.node().cancel_with_descendants(&job, &may_touch, Some(&actor));
        let (job, CancelledDescendants { cancelled, more }) = cancel.await?;
        Ok::<_, platform::Error>((context, job, Some(Descendants { cancelled, more })))
    })
    .await
}

pub(crate) async fn redrive(
    context: RequestContext,
    Id(id): Id,
    OptionalSettingsBody(request): OptionalSettingsBody<RedriveRequest>,
) -> Reply<(StatusCode, Json<JobStatus>)> {
    let actor = actor_on(&context.job(id).await?, &context);
    let RedriveRequest { max_attempts, reset_steps, payload } = request;
    if payload.is_some() {
        context.caller.grant().may(Right::JobsPayload)?;
    }
    let payload = payload.map(|payload| payload.as_str().to_owned());
    let reset_steps = reset_steps.unwrap_or(false);
    let options = RedriveOptions { max_attempts, reset_steps, payload };
    let job = context.node().redrive(context.scope(), id, options, Some(&actor)).await?;
    Ok((StatusCode::ACCEPTED, Json(status_of(&context.caller, &job))))
}

pub(crate) async fn erase(
    context: RequestContext,
    Id(id): Id,
    _: OptionalSettingsBody<NoFields>,
) -> Reply<StatusCode> {
    let actor = actor_on(&context.job(id).await?, &context);
    context.node().erase(context.scope(), id, Some(&actor)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The audit entry belongs to the tenant of the job: its operators should know who acted on it.
fn actor_on(job: &Job, context: &RequestContext) -> Actor {
    context.actor().within(Scope::One(job.envelope.tenant.clone()))
}
