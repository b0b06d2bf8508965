//! The status of a job: an HTTP resource with a version, and long polling.

use crate::{
    auth::{Caller, PresentedCredential},
    context::RequestContext,
    error::{ApiError, Reply, whole_seconds},
    extract::{Id, QueryParams, is_known},
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
use wire::StatusShape;

const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");
/// The longest wait for one answer.
const WAIT_SECONDS_MAX: u32 = 60;
/// A watch is only a hint, so a waiting request also polls this often.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

pub(crate) async fn status(
    context: RequestContext,
    Id(id): Id,
    asked: StatusQuery,
) -> Reply<Response> {
    let job = awaited(&context, id, &asked).await?;
    let mut response = if asked.knows(&job) {
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
    if let Some(seconds) = asked.preferred {
        let applied = HeaderValue::from_str(&format!("wait={seconds}")).expect("plain ASCII");
        headers.insert(PREFERENCE_APPLIED, applied);
    }
    Ok(response)
}

/// The parameters of a status request.
pub(crate) struct StatusQuery {
    /// The versions that the client has.
    known: Option<HeaderValue>,
    /// How long the request waits for another version, and the credential that it came with.
    waits: Option<(Duration, PresentedCredential)>,
    /// The wait, where the client gave it as `Prefer`.
    preferred: Option<u32>,
}

impl StatusQuery {
    /// Whether the client has this version already.
    fn knows(&self, job: &Job) -> bool {
        self.known.as_ref().is_some_and(|known| is_known(known, &etag(job)))
    }
}

impl<S: Sync> FromRequestParts<S> for StatusQuery {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let asked = QueryParams::of(parts.uri.query())?.number("wait")?;
        let within = |seconds| check_range("wait", seconds, 0..=WAIT_SECONDS_MAX);
        let asked = asked.map(within).transpose()?;
        let preferred = preferred_wait(&parts.headers).filter(|_| asked.is_none());
        let seconds = asked.or(preferred).filter(|seconds| *seconds > 0);
        let waits = seconds
            .map(|seconds| (Duration::from_secs(seconds.into()), PresentedCredential::with(parts)));
        let known = parts.headers.get(header::IF_NONE_MATCH);
        let known = known.filter(|known| known.to_str().is_ok()).cloned();
        Ok(StatusQuery { known, waits, preferred })
    }
}

/// The status of a job, as this caller may see it.
pub(crate) fn status_of(caller: &Caller, job: &Job) -> StatusShape {
    let shape = StatusShape::from(job);
    if caller.sees_tenants() { shape.with_tenant(job) } else { shape }
}

/// Returns the job as soon as it is what the caller waits for, or when the wait times out.
async fn awaited(context: &RequestContext, id: JobId, asked: &StatusQuery) -> Reply<Job> {
    let Some((wait, shown)) = &asked.waits else { return context.job(id).await };
    let app = &context.app;
    let mut watch = app.node.watch(id);
    let mut job = context.job(id).await?;
    // Without a free waiting slot, the request gets the current state.
    let place = context.waiting_slot(Some(&job));
    if place.is_ok() {
        shown.protect_connection().await;
    }
    let until = Instant::now() + if place.is_ok() { *wait } else { Duration::ZERO };
    loop {
        let arrived = match asked.known {
            Some(_) => !asked.knows(&job),
            None => job.status().is_ended(),
        };
        if arrived || Instant::now() >= until {
            return Ok(job);
        }
        let look = until.min(Instant::now() + POLL_INTERVAL);
        let over = tokio::select! {
            changed = watch.changed() => changed == Changed::Closed,
            () = sleep_until(look) => false,
            () = app.closed() => true,
        };
        // A key may end before the wait does.
        shown.is_good(app).await?;
        if over {
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
    let given = headers.get_all("prefer").iter().filter_map(|value| value.to_str().ok());
    let mut preferences = given.flat_map(|value| value.split([',', ';']));
    let seconds = preferences.find_map(|preference| {
        let (name, value) = preference.split_once('=')?;
        name.trim()
            .eq_ignore_ascii_case("wait")
            .then(|| value.trim().trim_matches('"').parse().ok())
    });
    seconds.flatten().map(|seconds: u32| seconds.min(WAIT_SECONDS_MAX))
}
