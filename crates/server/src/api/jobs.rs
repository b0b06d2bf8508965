//! One job: handed over, looked at, stopped, given another life, erased.

use super::{
    status::status_of,
    submission::{draft, key_header, pace, shown, with_key},
};
use crate::{
    Door,
    auth::Caller,
    guard::{Correlation, X_CORRELATION_ID, header_of},
    no::{No, Reply, whole_seconds},
    sent::{Id, Params, Sent, SentOrNothing},
};
use axum::{
    Json,
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use engine::{JobDraft, JobId, Right, Scope, Tenant};
use wire::{
    ExplainShape, HistoryAnswer, HistoryShape, JobShape, RedriveRequest, StatusShape, SubmitRequest,
};

pub(crate) async fn submit(
    State(door): State<Door>,
    caller: Caller,
    correlation: Correlation,
    params: Params,
    headers: HeaderMap,
    Sent(request): Sent<SubmitRequest>,
) -> Reply<Response> {
    let signed = params.flag("withSignedUrl")?;
    let request = with_key(request, key_header(&headers)?)?;
    let draft = draft(request, &caller, &correlation)?;
    let tenant = tenant_of(&door, &caller, &draft).await?;
    let pace = pace(&door, &tenant, &draft);
    let submitted = door.node.submit(&tenant, draft).await.map_err(|e| No::from(e).later(pace))?;
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
    Id(id): Id,
) -> Reply<Json<JobShape>> {
    let job = door.job(&caller, id).await?;
    let payload = match caller.may(Right::JobsPayload) {
        true => Some(door.node.payload(caller.scope(), id).await?),
        false => None,
    };
    Ok(Json(JobShape::new(&job, payload.as_ref())))
}

pub(crate) async fn history(
    State(door): State<Door>,
    caller: Caller,
    Id(id): Id,
) -> Reply<Json<HistoryAnswer>> {
    door.job(&caller, id).await?;
    let rows = door.node.history(caller.scope(), id, 0).await?;
    Ok(Json(HistoryAnswer { items: rows.iter().map(HistoryShape::from).collect() }))
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
) -> Reply<(StatusCode, Json<StatusShape>)> {
    let job = door.job(&caller, id).await?;
    let job = door.about(&job, &caller, &correlation).cancel(caller.scope(), id).await?;
    Ok((StatusCode::ACCEPTED, Json(status_of(&caller, &job))))
}

pub(crate) async fn redrive(
    State(door): State<Door>,
    caller: Caller,
    correlation: Correlation,
    Id(id): Id,
    SentOrNothing(request): SentOrNothing<RedriveRequest>,
) -> Reply<(StatusCode, Json<StatusShape>)> {
    let job = door.job(&caller, id).await?;
    request.check()?;
    let RedriveRequest { max_attempts, reset_steps } = request;
    let managed = door.about(&job, &caller, &correlation);
    let again = reset_steps.unwrap_or(false);
    let job = managed.redrive(caller.scope(), id, max_attempts, again).await?;
    Ok((StatusCode::ACCEPTED, Json(status_of(&caller, &job))))
}

pub(crate) async fn erase(
    State(door): State<Door>,
    caller: Caller,
    correlation: Correlation,
    Id(id): Id,
) -> Reply<StatusCode> {
    let job = door.job(&caller, id).await?;
    door.about(&job, &caller, &correlation).erase(caller.scope(), id).await?;
    Ok(StatusCode::NO_CONTENT)
}
