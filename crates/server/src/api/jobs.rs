//! One job: handed over, looked at, stopped, given another life, erased.

use super::{
    no_fields::NoFields,
    page::PageQuery,
    status::status_of,
    submission::{draft, key_header, pace, shown, with_key, with_signed_url, without_hidden_job},
};
use crate::{
    Door,
    auth::Caller,
    guard::{Correlation, X_CORRELATION_ID, header_of},
    no::{No, Reply, whole_seconds},
    sent::{Id, Params, Sent, SettingOrNothing},
};
use axum::{
    Json,
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use engine::{Job, JobDraft, JobId, Right, Scope, Tenant};
use platform::Actor;
use tracing::info;
use wire::{
    ExplainShape, HistoryShape, JobShape, Page, RedriveRequest, StatusShape, SubmitRequest,
};

pub(crate) async fn submit(
    State(door): State<Door>,
    caller: Caller,
    correlation: Correlation,
    params: Params,
    headers: HeaderMap,
    Sent(request, _permit): Sent<SubmitRequest>,
) -> Reply<Response> {
    let signed = with_signed_url(&params, &caller)?;
    let request = with_key(request, key_header(&headers)?)?;
    let draft = draft(request, &caller, &correlation)?;
    let tenant = tenant_of(&door, &caller, &draft).await?;
    let pace = pace(&door, &tenant, &draft);
    let submitted = match door.node.submit(&tenant, draft).await {
        Ok(submitted) => submitted,
        Err(error) => {
            return Err(without_hidden_job(&door, &caller, No::from(error)).await.later(pace));
        }
    };
    let shape = shown(&door, &submitted, signed);
    let location = HeaderValue::from_str(&shape.status_url).expect("an id is plain ASCII");
    let headers = [
        (header::LOCATION, location),
        (header::RETRY_AFTER, whole_seconds(pace)),
        (X_CORRELATION_ID, header_of(&submitted.correlation)),
    ];
    Ok((StatusCode::ACCEPTED, headers, Json(shape)).into_response())
}

/// Whose the job is: the caller's, or, of a worker who acts for all, that of the job it is a child of. A worker for all
/// tenants would else hand over to others what it makes of a tenant's job.
async fn tenant_of(door: &Door, caller: &Caller, draft: &JobDraft) -> Reply<Tenant> {
    let parent = draft.parent_id.as_deref().and_then(|id| JobId::parse(id).ok());
    let (Scope::All, Some(parent), true) = (caller.scope(), parent, caller.may(Right::Work)) else {
        return Ok(caller.tenant());
    };
    match door.node.job(&Scope::All, parent).await {
        Ok(job) => {
            caller.grant().may_touch(&job.envelope)?;
            Ok(job.envelope.tenant.clone())
        }
        Err(platform::Error::Refused(_)) => Ok(caller.tenant()), // a parent that was erased
        Err(error) => Err(error.into()),
    }
}

pub(crate) async fn show(
    State(door): State<Door>,
    caller: Caller,
    correlation: Correlation,
    Id(id): Id,
) -> Reply<Json<JobShape>> {
    let job = door.job(&caller, id).await?;
    let payload = match caller.may(Right::JobsPayload) {
        true => Some(door.node.payload(caller.scope(), id).await?),
        false => None,
    };
    if payload.is_some() {
        // Logged and not audited: a look must not cost a commit. What workers claim is not a look.
        let (who, tenant, correlation) = (&caller.0.who, &job.envelope.tenant, correlation.id);
        info!(job = %id, %tenant, who = &**who, %correlation, "payload read");
    }
    Ok(Json(JobShape::new(&job, payload.as_ref())))
}

pub(crate) async fn history(
    State(door): State<Door>,
    caller: Caller,
    Id(id): Id,
    params: Params,
) -> Reply<Json<Page<HistoryShape>>> {
    let query = PageQuery::of(&params)?;
    door.job(&caller, id).await?;
    let rows = door.node.history(caller.scope(), id, query.after_number()).await?;
    Ok(Json(query.cut(rows, |row| row.seq.to_be_bytes().to_vec(), |row| HistoryShape::from(row))))
}

pub(crate) async fn explain(
    State(door): State<Door>,
    caller: Caller,
    Id(id): Id,
) -> Reply<Json<ExplainShape>> {
    door.job(&caller, id).await?;
    let explained = door.node.explain(caller.scope(), id).await?;
    Ok(Json(ExplainShape::new(explained.status, &explained.reasons)))
}

pub(crate) async fn cancel(
    State(door): State<Door>,
    caller: Caller,
    correlation: Correlation,
    Id(id): Id,
    _: SettingOrNothing<NoFields>,
) -> Reply<(StatusCode, Json<StatusShape>)> {
    let job = door.job(&caller, id).await?;
    let actor = actor_on(&job, &caller, &correlation);
    let job = door.node.cancel(caller.scope(), id, Some(&actor)).await?;
    Ok((StatusCode::ACCEPTED, Json(status_of(&caller, &job))))
}

pub(crate) async fn redrive(
    State(door): State<Door>,
    caller: Caller,
    correlation: Correlation,
    Id(id): Id,
    SettingOrNothing(request): SettingOrNothing<RedriveRequest>,
) -> Reply<(StatusCode, Json<StatusShape>)> {
    let job = door.job(&caller, id).await?;
    request.check()?;
    let RedriveRequest { max_attempts, reset_steps } = request;
    let (actor, again) = (actor_on(&job, &caller, &correlation), reset_steps.unwrap_or(false));
    let job = door.node.redrive(caller.scope(), id, max_attempts, again, Some(&actor)).await?;
    Ok((StatusCode::ACCEPTED, Json(status_of(&caller, &job))))
}

pub(crate) async fn erase(
    State(door): State<Door>,
    caller: Caller,
    correlation: Correlation,
    Id(id): Id,
    _: SettingOrNothing<NoFields>,
) -> Reply<StatusCode> {
    let job = door.job(&caller, id).await?;
    let actor = actor_on(&job, &caller, &correlation);
    door.node.erase(caller.scope(), id, Some(&actor)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The entry belongs to the tenant whose job it is: its operators should know who did it.
fn actor_on(job: &Job, caller: &Caller, correlation: &Correlation) -> Actor {
    caller.actor(correlation).within(Scope::One(job.envelope.tenant.clone()))
}
