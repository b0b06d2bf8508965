//! The middleware around every request: correlation, limits on headers, the log line, and the
//! translation of every error and panic into problem details.

use crate::{
    AppState,
    error::{ApiError, PendingProblem},
    forwarded::client_address,
    serve::Peer,
};
use axum::{
    extract::{MatchedPath, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Version, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use engine::{CorrelationId, FieldProblem, JobId, TraceParent};
use futures_util::FutureExt;
use std::{
    fmt::{self, Display, Formatter},
    panic::AssertUnwindSafe,
    sync::Arc,
};
use tracing::{debug, info, warn};
use wire::codes;

/// The header that carries the correlation, in requests and answers.
pub(crate) const X_CORRELATION_ID: HeaderName = HeaderName::from_static("x-correlation-id");
const TRACEPARENT: &str = "traceparent";

/// Ties together the log lines and answers of one request.
#[derive(Clone, Debug)]
pub(crate) struct Correlation {
    /// The caller's, or a new one.
    pub(crate) id: CorrelationId,
    /// What was wrong with the caller's.
    pub(crate) refused: Option<FieldProblem>,
    /// The trace that the request belongs to.
    pub(crate) traceparent: Option<TraceParent>,
}

impl Correlation {
    fn of(headers: &HeaderMap, new: impl FnOnce() -> CorrelationId) -> Self {
        // A client sends an empty header when its own variable is unset.
        let is_empty = |value: &HeaderValue| value.as_bytes().trim_ascii().is_empty();
        let text = |name: &HeaderName| {
            headers.get(name).filter(|value| !is_empty(value)).map(HeaderValue::to_str)
        };
        let trace = headers.get(TRACEPARENT).and_then(|value| value.to_str().ok());
        let traceparent = trace.and_then(|trace| TraceParent::parse(trace).ok());
        let mut refused = None;
        let own = text(&X_CORRELATION_ID).and_then(|header| {
            let plain = header.map_err(|_| {
                FieldProblem::new("correlationId", "must be plain ASCII in X-Correlation-Id")
            });
            plain.and_then(CorrelationId::parse).map_err(|problem| refused = Some(problem)).ok()
        });
        let trace_correlation = || traceparent.as_ref().map(TraceParent::trace_id);
        let id = own.or_else(trace_correlation).unwrap_or_else(new);
        Correlation { id, refused, traceparent }
    }
}

/// The jobs of a page of reports, for the log line. A long page shows its first jobs.
#[derive(Clone)]
pub(crate) struct ReportedJobs {
    first: Vec<JobId>,
    count: usize,
}

impl ReportedJobs {
    const SHOWN_MAX: usize = 10;

    pub(crate) fn of(jobs: impl Iterator<Item = JobId> + Clone) -> Self {
        ReportedJobs { first: jobs.clone().take(Self::SHOWN_MAX).collect(), count: jobs.count() }
    }
}

impl Display for ReportedJobs {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (index, job) in self.first.iter().enumerate() {
            write!(f, "{}{job}", if index == 0 { "" } else { " " })?;
        }
        match self.count - self.first.len() {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// The caller, for the log line. The code that recognises the caller puts it into the response.
#[derive(Clone)]
pub(crate) struct Requester(pub(crate) Arc<str>);

/// The outermost middleware.
pub(crate) async fn request_middleware(
    State(app): State<AppState>,
    mut request: Request,
    next: Next,
) -> Response {
    let began = app.monotonic();
    let correlation = Correlation::of(request.headers(), || app.new_correlation());
    let id = correlation.id.clone();
    let (method, path) = (request.method().clone(), request.uri().path());
    let is_routine = Routine::of(path);
    let path = loggable_path(path);
    let peer = request.extensions().get::<Peer>().copied();
    let tls = peer.is_some_and(|peer| peer.tls);
    let peer = peer.and_then(|peer| peer.address);
    let client = peer.and_then(|peer| client_address(&app.settings.proxy, peer, request.headers()));
    let (peer, client) = (peer.map(tracing::field::display), client.map(tracing::field::display));
    let limits = check_headers(&request, app.settings.limits.header_bytes_max)
        .and_then(|()| check_once(&request));
    let cors = app.settings.cors_origins.of_request(request.headers());
    let preflight = cors.preflight(&request);
    request.extensions_mut().insert(correlation);
    let outcome = match limits.map(|()| preflight) {
        Ok(Some(answer)) => Ok(answer),
        // `AssertUnwindSafe` holds: handlers share no state that a panic leaves half changed.
        Ok(None) => AssertUnwindSafe(next.run(request)).catch_unwind().await,
        Err(error) => Ok(error.into_response()),
    };
    let mut response = outcome.unwrap_or_else(|_| {
        let error = ApiError::with_code(codes::INTERNAL, "we made a mistake, and it is in our log");
        warn!(correlation = %id, %method, path, "a handler panicked");
        error.respond(&id)
    });
    let who = response.extensions_mut().remove::<Requester>().map(|who| who.0);
    let jobs = response.extensions_mut().remove::<ReportedJobs>();
    if let Some(PendingProblem(error)) = response.extensions_mut().remove::<PendingProblem>() {
        error.log(&id);
        let headers = std::mem::take(response.headers_mut());
        response = error.respond(&id);
        response
            .headers_mut()
            .extend(headers.into_iter().filter(|(name, _)| is_kept(name.as_ref())));
    }
    add_headers(&mut response, tls, &id);
    cors.add_to(response.headers_mut());
    let status = response.status().as_u16();
    let ms = (app.monotonic() - began).as_secs_f64() * 1e3;
    let ms = (ms * 1e3).round() / 1e3;
    let who = who.as_deref();
    // The query is left out: it may contain a signature.
    match is_routine {
        // Monitors send probes every few seconds: no log line at `info` while all is well.
        Some(Routine::Probe) if status < 400 => debug!(path, status, ms, peer, client, "request"),
        // Workers send these all the time, even while nothing happens.
        Some(Routine::Worker) if status < 400 => {
            debug!(path, status, ms, who, peer, client, correlation = %id, "request");
        }
        // A page of reports is about several jobs, each with a correlation of its own. That of the
        // request says nothing about them.
        Some(Routine::Report) => {
            let jobs = jobs.as_ref().map(tracing::field::display);
            info!(%method, path, status, ms, who, peer, client, jobs, request = %id, "request");
        }
        Some(Routine::Probe | Routine::Worker) | None => {
            info!(%method, path, status, ms, who, peer, client, correlation = %id, "request");
        }
    }
    app.metrics.count(status);
    response
}

/// Adds the headers that every response has.
fn add_headers(response: &mut Response, tls: bool, id: &CorrelationId) {
    let headers_too_large = response.status() == StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
    let headers = response.headers_mut();
    if headers_too_large {
        // The protocol does the same where it notices first.
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if tls {
        headers.insert(header::STRICT_TRANSPORT_SECURITY, A_YEAR_OF_TLS);
    }
    // The state of a job is soon outdated, and a key must be seen by one person only.
    if !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    if !headers.contains_key(X_CORRELATION_ID) {
        headers.insert(X_CORRELATION_ID, header_of(id));
    }
}

/// Requests of machines, which are repeated all the time while all is well.
#[derive(Clone, Copy)]
enum Routine {
    Probe,
    Worker,
    Report,
}

impl Routine {
    fn of(path: &str) -> Option<Self> {
        match path {
            "/healthz" | "/readyz" => Some(Routine::Probe),
            "/api/work/claim" | "/api/work/heartbeat" => Some(Routine::Worker),
            "/api/work/settle" | "/api/work/release" => Some(Routine::Report),
            _ => None,
        }
    }
}

/// Browsers that have seen this server under TLS use only TLS for a year.
const A_YEAR_OF_TLS: HeaderValue = HeaderValue::from_static("max-age=31536000");

/// Longer paths are cut in the log. Every path of our routes is shorter.
const PATH_CHARS_MAX: usize = 200;

/// A path as the log shows it: of bounded length, and only with characters that are harmless on a
/// screen. The client chooses every byte of it.
fn loggable_path(path: &str) -> String {
    // Most paths need no change, and this runs for every request.
    if path.len() <= PATH_CHARS_MAX && path.bytes().all(|byte| byte.is_ascii_graphic()) {
        return path.to_owned();
    }
    let mut cut: String = path
        .chars()
        .take(PATH_CHARS_MAX)
        .map(|letter| if letter.is_ascii_graphic() { letter } else { '?' })
        .collect();
    if path.chars().nth(PATH_CHARS_MAX).is_some() {
        cut += "...";
    }
    cut
}

/// Headers of a layer that hold whatever the answer is.
fn is_kept(name: Option<&HeaderName>) -> bool {
    name.is_some_and(|name| name == header::ALLOW || name.as_str().starts_with("ratelimit"))
}

pub(crate) fn header_of(correlation: &CorrelationId) -> HeaderValue {
    // Characters beyond ASCII are sent as their bytes, which HTTP allows.
    HeaderValue::from_bytes(correlation.as_str().as_bytes())
        .expect("a correlation has no control characters")
}

/// Refuses what a proxy in front could read in another way than this server: two hosts, or two
/// credentials, of which the proxy checks one and the server uses the other.
fn check_once(request: &Request) -> Result<(), ApiError> {
    let count = |name: HeaderName| request.headers().get_all(name).iter().take(2).count();
    let malformed = |detail| Err(ApiError::with_code(codes::MALFORMED_REQUEST, detail));
    match count(header::HOST) {
        0 if request.version() >= Version::HTTP_11 => {
            return malformed("a request must have a Host header");
        }
        0 | 1 => {}
        _ => return malformed("a request must have one Host header, and has more"),
    }
    if count(header::AUTHORIZATION) > 1 {
        return malformed("a request must have one Authorization header, and has more");
    }
    Ok(())
}

/// Bytes of a request's path and query.
pub(crate) const ADDRESS_BYTES_MAX: usize = 8 * 1024;

fn check_headers(request: &Request, bytes_max: usize) -> Result<(), ApiError> {
    const COLON_AND_BREAK: usize = 4;
    let address = request.uri().path_and_query().map_or(0, |address| address.as_str().len());
    let lengths = request.headers().iter();
    let bytes: usize =
        lengths.map(|(name, value)| name.as_str().len() + value.len() + COLON_AND_BREAK).sum();
    if address > ADDRESS_BYTES_MAX {
        let detail = format!("the address has more than {ADDRESS_BYTES_MAX} bytes");
        return Err(ApiError::with_code(codes::HEADERS_TOO_LARGE, detail));
    }
    if bytes > bytes_max {
        let detail = format!("the headers have {bytes} bytes, and at most {bytes_max} are taken");
        return Err(ApiError::with_code(codes::HEADERS_TOO_LARGE, detail));
    }
    Ok(())
}

/// The path matches no route.
pub(crate) async fn not_found() -> ApiError {
    ApiError::with_code(codes::NOT_FOUND, "there is nothing at this address")
}

/// The path matches a route, but the method does not.
pub(crate) async fn method_not_allowed(path: Option<MatchedPath>) -> ApiError {
    let detail = match path {
        Some(path) => format!("{} does not take this method", path.as_str()),
        None => "this address does not take this method".into(),
    };
    ApiError::with_code(codes::METHOD_NOT_ALLOWED, detail)
}

/// Refuses clients that accept none of the route's representations.
pub(crate) fn accepts(headers: &HeaderMap, media_types: &[&str]) -> Result<(), ApiError> {
    let mut accepts = headers.get_all(header::ACCEPT).iter().peekable();
    if accepts.peek().is_none() {
        return Ok(());
    }
    let ranges = accepts.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    let mut accepted_types = ranges.filter_map(|range| {
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next()?;
        let refused = parts.any(|part| matches!(part, "q=0" | "q=0.0" | "q=0.00" | "q=0.000"));
        (!refused).then_some(kind)
    });
    let fits = |range: &str| {
        media_types.iter().any(|media_type| {
            let (group, _) = media_type.split_once('/').unwrap_or((media_type, ""));
            range.eq_ignore_ascii_case(media_type)
                || range == "*/*"
                || range
                    .strip_suffix("/*")
                    .is_some_and(|accepted_types| accepted_types.eq_ignore_ascii_case(group))
        })
    };
    if accepted_types.any(fits) {
        return Ok(());
    }
    Err(ApiError::with_code(
        codes::NOT_ACCEPTABLE,
        format!("this address answers in {}", media_types.join(", ")),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        let parse = |value: &str| HeaderValue::from_bytes(value.as_bytes()).unwrap();
        lines.iter().map(|(name, value)| (HeaderName::from_static(name), parse(value))).collect()
    }

    fn correlation(lines: &[(&'static str, &str)]) -> Correlation {
        Correlation::of(&headers(lines), || CorrelationId::parse("new").unwrap())
    }

    #[test]
    fn a_correlation_is_the_callers_or_that_of_its_trace_or_new() {
        let trace = ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
        let own = correlation(&[("x-correlation-id", "mine"), trace]);
        assert_eq!((own.id.as_str(), own.refused), ("mine", None));
        assert_eq!(correlation(&[trace]).id.as_str(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(correlation(&[("traceparent", "nonsense")]).id.as_str(), "new");
        let long = "x".repeat(129);
        for empty in ["", " ", "\t "] {
            let none = correlation(&[("x-correlation-id", empty), trace]);
            assert_eq!(none.id.as_str(), "0af7651916cd43dd8448eb211c80319c");
            let none = correlation(&[("x-correlation-id", empty)]);
            assert_eq!((none.id.as_str(), none.refused), ("new", None), "{empty:?}");
        }
        let refused = correlation(&[("x-correlation-id", &long)]);
        assert_eq!((refused.id.as_str(), refused.refused.is_some()), ("new", true));
    }

    #[test]
    fn a_path_is_logged_without_what_could_deceive() {
        assert_eq!(loggable_path("/api/jobs/{id}"), "/api/jobs/{id}");
        assert_eq!(loggable_path("/a\u{202e}b\u{7f}c d"), "/a?b?c?d");
        let long = loggable_path(&"ü".repeat(10_000));
        assert_eq!((long.len(), &long[198..]), (203, "??..."));
    }

    #[test]
    fn an_accept_header_without_our_formats_is_refused() {
        let ask = |accept: &str| accepts(&headers(&[("accept", accept)]), &["application/json"]);
        assert!(accepts(&HeaderMap::new(), &["application/json"]).is_ok());
        for good in
            ["*/*", "application/*", "text/html, application/json;q=0.5", "APPLICATION/JSON"]
        {
            assert!(ask(good).is_ok(), "{good}");
        }
        for bad in ["text/html", "application/json;q=0", "image/*", ""] {
            assert!(ask(bad).is_err(), "{bad}");
        }
    }
}
