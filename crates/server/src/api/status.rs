//! The status of a job: an HTTP resource with a version, and long polling.

use crate::{
    auth::{Caller, PresentedCredential},
    context::RequestContext,
    error::{ApiError, Reply, whole_seconds},
    extract::{Id, QueryParams, matches_etag},
};
use axum::{
    Json,
    extract::FromRequestParts,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
};
use engine::{Job, JobId, check_range};
use platform::Changed;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};
use wire::JobStatus;

const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");
/// The longest wait for one answer.
const WAIT_SECONDS_MAX: u32 = 60;
/// A watch is only a hint, so a waiting request also polls this often.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

pub(crate) async fn status(
    context: RequestContext,
    Id(id): Id,
    query: StatusQuery,
) -> Reply<Response> {
    let job = wait_for_change(&context, id, &query).await?;
    let mut response = if query.is_current(&job) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        Json(status_of(&context.caller, &job)).into_response()
    };
    let headers = response.headers_mut();
    let etag = HeaderValue::from_str(&etag(&job)).expect("digits are plain ASCII");
    headers.insert(header::ETAG, etag);
    if let Some(after) = context.node().retry_after(&job) {
        headers.insert(header::RETRY_AFTER, whole_seconds(after));
    }
    if let Some(seconds) = query.prefer_seconds {
        let applied = HeaderValue::from_str(&format!("wait={seconds}")).expect("plain ASCII");
        headers.insert(PREFERENCE_APPLIED, applied);
    }
    Ok(response)
}

/// The parameters of a status request.
pub(crate) struct StatusQuery {
    /// The versions that the client has.
    if_none_match: Option<HeaderValue>,
    /// How long the request waits for another version, and the credential that it came with.
    wait: Option<(Duration, PresentedCredential)>,
    /// The wait, where the client gave it as `Prefer`.
    prefer_seconds: Option<u32>,
}

impl StatusQuery {
    /// Whether the client has this version already.
    fn is_current(&self, job: &Job) -> bool {
        self.if_none_match
            .as_ref()
            .is_some_and(|if_none_match| matches_etag(if_none_match, &etag(job)))
    }
}

impl<S: Sync> FromRequestParts<S> for StatusQuery {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let wait_param = QueryParams::of(parts.uri.query())?.number("wait")?;
        let within = |seconds| check_range("wait", seconds, 0..=WAIT_SECONDS_MAX);
        let wait_param = wait_param.map(within).transpose()?;
        let prefer_seconds = preferred_wait(&parts.headers).filter(|_| wait_param.is_none());
        let seconds = wait_param.or(prefer_seconds).filter(|seconds| *seconds > 0);
        let wait = seconds
            .map(|seconds| (Duration::from_secs(seconds.into()), PresentedCredential::with(parts)));
        let if_none_match = parts.headers.get(header::IF_NONE_MATCH);
        let if_none_match =
            if_none_match.filter(|if_none_match| if_none_match.to_str().is_ok()).cloned();
        Ok(StatusQuery { if_none_match, wait, prefer_seconds })
    }
}

/// The status of a job, as this caller may see it.
pub(crate) fn status_of(caller: &Caller, job: &Job) -> JobStatus {
    let shape = JobStatus::from(job);
    if caller.sees_tenants() { shape.with_tenant(job) } else { shape }
}

/// Returns the job as soon as it is what the caller waits for, or when the wait times out.
async fn wait_for_change(context: &RequestContext, id: JobId, query: &StatusQuery) -> Reply<Job> {
    let Some((wait_max, credential)) = &query.wait else { return context.job(id).await };
    let app = &context.app;
    let mut watch = app.node.watch(id);
    let mut job = context.job(id).await?;
    // Without a free waiting slot, the request gets the current state.
    let slot = context.waiting_slot(Some(&job));
    if slot.is_ok() {
        credential.protect_connection().await;
    }
    let until = Instant::now() + if slot.is_ok() { *wait_max } else { Duration::ZERO };
    loop {
        let has_changed = match query.if_none_match {
            Some(_) => !query.is_current(&job),
            None => job.status().is_ended(),
        };
        if has_changed || Instant::now() >= until {
            return Ok(job);
        }
        let poll_at = until.min(Instant::now() + POLL_INTERVAL);
        let is_closing = tokio::select! {
            changed = watch.changed() => changed == Changed::Closed,
            () = sleep_until(poll_at) => false,
            () = app.closed() => true,
        };
        // A key may end before the wait does.
        credential.check_still_valid(app).await?;
        if is_closing {
            return Ok(job);
        }
        job = context.job(id).await?;
    }
}

/// The version, as clients return it.
fn etag(job: &Job) -> String {
    format!("\"{}\"", job.version)
}

/// `Prefer: wait=30`. A preference that cannot be met is ignored.
fn preferred_wait(headers: &HeaderMap) -> Option<u32> {
    let values = headers.get_all("prefer").iter().filter_map(|value| value.to_str().ok());
    let mut preferences = values.flat_map(|value| value.split([',', ';']));
    let seconds = preferences.find_map(|preference| {
        let (name, value) = preference.split_once('=')?;
        name.trim()
            .eq_ignore_ascii_case("wait")
            .then(|| value.trim().trim_matches('"').parse().ok())
    });
    seconds.flatten().map(|seconds: u32| seconds.min(WAIT_SECONDS_MAX))
}
