//! The input of a submit: what headers add to the body, and whether the caller may submit it.

use crate::{
    AppState,
    auth::Caller,
    context::RequestContext,
    error::{ApiError, Reply},
    extract::QueryParams,
};
use axum::http::{HeaderMap, HeaderName};
use engine::{
    FieldProblem, JobDraft, JobType, Right, Start, SubjectId, Submitted, Tenant, Timestamp,
};
use platform::Node;
use std::time::Duration;
use wire::{SubmitRequest, SubmittedJob};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Makes the draft of a request, if the caller may submit it.
pub(super) fn draft(request: SubmitRequest, context: &RequestContext) -> Reply<JobDraft> {
    let RequestContext { caller, correlation, .. } = context;
    let mut draft = request.into_draft()?;
    if draft.correlation_id.is_none() {
        if let Some(problem) = &correlation.refused {
            return Err(problem.clone().into());
        }
        draft.correlation_id = Some(correlation.id.to_string());
    }
    if draft.traceparent.is_none() {
        draft.traceparent = correlation.traceparent.as_ref().map(ToString::to_string);
    }
    check_reach(&draft, caller)?;
    Ok(draft)
}

/// Checks the caller's limits. Invalid fields are left to the checks that report every field.
fn check_reach(draft: &JobDraft, caller: &Caller) -> Reply<()> {
    if let Ok(job_type) = JobType::parse(&draft.job_type) {
        caller.grant().may_type(&job_type)?;
    }
    match draft.subject_id.as_deref().map(SubjectId::parse) {
        Some(Ok(subject)) => caller.grant().may_subject(Some(&subject))?,
        Some(Err(_)) => {}
        None => caller.grant().may_subject(None)?,
    }
    Ok(())
}

/// The key from the header, with or without double quotes.
pub(super) fn key_header(headers: &HeaderMap) -> Reply<Option<String>> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let problem = |detail| FieldProblem::new("idempotencyKey", detail);
    if values.next().is_some() {
        return Err(problem("must not be given in two headers").into());
    }
    let text = value.to_str().map_err(|_| problem("must be plain ASCII in its header"))?.trim();
    let unquoted = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    Ok(Some(unquoted.unwrap_or(text).to_owned()))
}

/// Applies the header's key to the one job of the body. If both give a key, they must agree.
pub(super) fn with_key(mut request: SubmitRequest, key: Option<String>) -> Reply<SubmitRequest> {
    let Some(key) = key else { return Ok(request) };
    if request.idempotency_key.as_ref().is_some_and(|own| *own != key) {
        let detail = "must be the same in the body and in the header Idempotency-Key";
        return Err(FieldProblem::new("idempotencyKey", detail).into());
    }
    request.idempotency_key = Some(key);
    Ok(request)
}

/// Whether the client asks for signed URLs. They open a status, so the caller must have the right
/// to read it.
pub(super) fn with_signed_url(params: &QueryParams, caller: &Caller) -> Reply<bool> {
    let is_wanted = params.flag("withSignedUrl")?;
    if is_wanted {
        caller.grant().may(Right::JobsRead)?;
    }
    Ok(is_wanted)
}

/// Removes from a refusal the id of a job that the caller may not see. A key counts for all
/// subjects of a type, so a job about a subject beyond the caller's limits may hold it.
pub(super) async fn without_hidden_job(context: &RequestContext, error: ApiError) -> ApiError {
    let ApiError::Refused(refusal) = error else { return error };
    let Some(holder) = refusal.key_holder() else { return ApiError::Refused(refusal) };
    let is_visible = context.caller.may(Right::JobsRead) && context.job(holder).await.is_ok();
    ApiError::Refused(if is_visible { refusal } else { refusal.without_key_holder() })
}

/// When the client should first poll for a job that is submitted now.
pub(super) fn first_retry_after(node: &Node, tenant: &Tenant, draft: &JobDraft) -> Duration {
    let start = match (draft.run_at, draft.delay_seconds) {
        (Some(at), _) => Start::At(Timestamp::from_unix_ms(at)),
        (None, Some(delay)) => Start::After(Duration::from_secs(delay.max(0).unsigned_abs())),
        (None, None) => Start::Now,
    };
    match JobType::parse(&draft.job_type) {
        Ok(job_type) => node.retry_after_submit(tenant, &job_type, start),
        Err(_) => Duration::from_secs(1), // it will be refused
    }
}

/// The answer for a submitted job.
pub(super) fn submitted_job(app: &AppState, submitted: &Submitted, signed: bool) -> SubmittedJob {
    let mut submitted_job = SubmittedJob::from(submitted);
    if let Some(urls) = signed.then(|| app.signed_urls(submitted.job_id)).flatten() {
        submitted_job.signed_status_url = Some(urls.status);
        submitted_job.signed_events_url = Some(urls.events);
    }
    submitted_job
}
