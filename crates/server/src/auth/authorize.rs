//! Authorization: only a caller with the route's right passes.

use super::{Caller, CredentialFailure, SIGNED, keys::KeyState, signing};
use crate::{
    AppState,
    connections::Connection,
    error::{ApiError, Reply},
    extract::{QueryParams, discard_body},
    middleware::{Correlation, Requester, accepts},
    routes::{Access, Route, route_of},
};
use axum::{
    extract::{FromRequestParts, MatchedPath, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, header, request::Parts},
    middleware::Next,
    response::{IntoResponse, Response},
};
use engine::{Grant, JobId, KeySecret, Principal, Right, Scope};
use std::{convert::Infallible, future::pending, sync::Arc, time::Duration};
use wire::codes;

/// What a route needs stands in the table of routes, so that no handler can forget it.
pub(crate) async fn authorize(
    State(app): State<AppState>,
    mut request: Request,
    next: Next,
) -> Response {
    let path = request.extensions().get::<MatchedPath>();
    let route = path.and_then(|path| route_of(request.method(), path.as_str()));
    // A method that the path does not take: the router answers every client with 405.
    let Some(route) = route else { return next.run(request).await };
    let (parts, body) = request.into_parts();
    let recognised = recognise(&app, route, &parts).await;
    let who = match &recognised {
        Ok(Some(caller)) => Some(Requester(caller.0.who.clone())),
        Ok(None) | Err(_) => None,
    };
    // Any client may hold a signed URL, so it protects its connection only while it waits.
    if matches!(&recognised, Ok(Some(caller)) if !caller.is_signed()) {
        protect_connection(&parts).await;
    }
    let authorized = recognised.and_then(|caller| {
        let checked = caller.map(|caller| check(route, &caller, &parts).map(|()| caller));
        checked.transpose().map_err(Rejected::from)
    });
    let caller = match authorized {
        Ok(caller) => caller,
        Err(rejected) => {
            discard_body(&parts.headers, body).await;
            let mut response = rejected.error.into_response();
            // The log names the caller of a refused request, too.
            let who = who.or_else(|| rejected.who.map(Requester));
            who.map(|who| response.extensions_mut().insert(who));
            return response;
        }
    };
    request = Request::from_parts(parts, body);
    let (Some(caller), Some(who)) = (caller, who) else { return next.run(request).await };
    let (limits, within_limit) = check_rate(&app, route, &caller);
    let mut response = match within_limit {
        Ok(()) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(error) => {
            let (parts, body) = request.into_parts();
            discard_body(&parts.headers, body).await;
            error.into_response()
        }
    };
    response.headers_mut().extend(limits);
    response.extensions_mut().insert(who);
    response
}

/// From here on the connection does not yield to another. If it already yields, this future never
/// completes: the connection's own task drops the request before anything was done for it.
async fn protect_connection(parts: &Parts) {
    let connection = parts.extensions.get::<Arc<Connection>>();
    if connection.is_some_and(|connection| !connection.protect()) {
        pending::<()>().await;
    }
}

/// The credential of a request, for long requests that check it again.
#[derive(Clone)]
pub(crate) struct PresentedCredential(Parts);

impl PresentedCredential {
    /// Takes the credential of this request.
    pub(crate) fn with(parts: &Parts) -> Self {
        PresentedCredential(parts.clone())
    }

    /// See [`protect_connection`]: for a request that has a waiting slot.
    pub(crate) async fn protect_connection(&self) {
        protect_connection(&self.0).await;
    }

    /// Whether the credential is still valid for the route.
    pub(crate) async fn check_still_valid(&self, app: &AppState) -> Reply<()> {
        let path = self.0.extensions.get::<MatchedPath>();
        let route = path.and_then(|path| route_of(&self.0.method, path.as_str()));
        let route = route.expect("authorize found the route of this request");
        let recognised = recognise(app, route, &self.0).await;
        match recognised.map_err(|rejected| rejected.error)? {
            Some(caller) => check(route, &caller, &self.0),
            None => Ok(()),
        }
    }
}

impl<S: Sync> FromRequestParts<S> for PresentedCredential {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(PresentedCredential::with(parts))
    }
}

/// Why a request is refused, and its caller: a revoked key still names its owner.
struct Rejected {
    error: ApiError,
    who: Option<Arc<str>>,
}

impl From<ApiError> for Rejected {
    fn from(error: ApiError) -> Self {
        Rejected { error, who: None }
    }
}

/// Recognises the caller, where the route needs one. The caller's rights are checked later.
async fn recognise(
    app: &AppState,
    route: &Route,
    parts: &Parts,
) -> Result<Option<Caller>, Rejected> {
    if route.access == Access::Open {
        return Ok(None);
    }
    let caller = match (route.access, signature(parts)?) {
        (Access::Signed(_), Some(sig)) if !parts.headers.contains_key(header::AUTHORIZATION) => {
            signed_caller(app, parts.uri.path(), &sig).await?
        }
        (Access::Open | Access::Right(_) | Access::Signed(_), _) => {
            authenticate(app, parts).await?
        }
    };
    Ok(Some(caller))
}

/// Checks the caller's right, the representations it accepts, and the parameters of its query.
fn check(route: &Route, caller: &Caller, parts: &Parts) -> Reply<()> {
    match route.access {
        Access::Open => {}
        Access::Right(right) | Access::Signed(right) => caller.grant().may(right)?,
    }
    accepts(&parts.headers, route.media_types())?;
    check_query(route, parts.uri.query())
}

/// Refuses query parameters on changing routes that take none. A caller may mean a parameter as a
/// limit: `pause?tenant=acme` would pause every tenant.
fn check_query(route: &Route, query: Option<&str>) -> Reply<()> {
    // Most requests have no query, and every one of them passes here.
    if query.is_none() || !route.refuses_query() {
        return Ok(());
    }
    // A signature does not limit the request, and a client may DELETE the signed URL that it has.
    let checked = QueryParams::of(query)?.refuse_unknown(&["sig"]);
    checked.map_err(|_| {
        ApiError::with_code("INVALID_FIELD", "this address takes no parameters in its query")
    })
}

async fn authenticate(app: &AppState, parts: &Parts) -> Result<Caller, Rejected> {
    let count_failure = |failure| app.authenticator.failures.count(failure);
    let missing_credential = || {
        count_failure(CredentialFailure::Missing);
        missing_error()
    };
    let header = parts.headers.get(header::AUTHORIZATION).ok_or_else(missing_credential)?;
    let bearer = header.to_str().ok().and_then(bearer).ok_or_else(missing_credential)?;
    if let Some(secret) = KeySecret::parse(bearer) {
        let who = match app.authenticator.credentials.find(app, &secret).await? {
            KeyState::Valid(principal) => return Ok(Caller(principal)),
            KeyState::Ended(principal) => Some(principal.who.clone()),
            KeyState::Unknown => None,
        };
        count_failure(CredentialFailure::Key);
        return Err(Rejected { error: invalid_error(), who });
    }
    let Some(jwt) = &app.authenticator.jwt else {
        count_failure(CredentialFailure::Token);
        return Err(invalid_error().into());
    };
    let verified = jwt.verify(bearer, app.now()).await;
    let principal = verified.map_err(|refused| {
        let correlation =
            parts.extensions.get::<Correlation>().map(|correlation| correlation.id.to_string());
        // At `debug`, not `info`: a client without a credential can send many, and they are
        // counted.
        tracing::debug!(correlation, %refused, "a token was refused");
        if refused.is_unavailable() {
            let error = ApiError::with_code(codes::ISSUER_UNAVAILABLE, refused.client_message());
            return ApiError::RetryAfter(Box::new(error), ISSUER_RETRY_AFTER);
        }
        count_failure(CredentialFailure::Token);
        ApiError::with_code(codes::UNAUTHENTICATED, refused.client_message())
    })?;
    Ok(Caller(Arc::new(principal)))
}

/// The issuer's keys are not fetched more often than this.
const ISSUER_RETRY_AFTER: Duration = Duration::from_secs(60);

fn bearer(text: &str) -> Option<&str> {
    let (scheme, token) = text.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn missing_error() -> ApiError {
    ApiError::with_code(codes::UNAUTHENTICATED, "send Authorization: Bearer with a key or a token")
}

fn invalid_error() -> ApiError {
    ApiError::with_code(codes::UNAUTHENTICATED, "the credential is unknown, expired or revoked")
}

fn signature(parts: &Parts) -> Reply<Option<String>> {
    Ok(QueryParams::of(parts.uri.query())?.get("sig").map(str::to_owned))
}

/// The caller of a signed URL: it may read this one job. The handlers behind it read no other job.
async fn signed_caller(app: &AppState, path: &str, sig: &str) -> Reply<Caller> {
    let job = path.split('/').nth(3).and_then(|id| JobId::parse(id).ok());
    let refused = |client_message| {
        app.authenticator.failures.count(CredentialFailure::Signature);
        ApiError::with_code(codes::UNAUTHENTICATED, client_message)
    };
    let job = job.ok_or_else(|| refused("the address was not signed for this job"))?;
    let verified = signing::verify(app, job, sig).await?;
    verified.map_err(|error| refused(error.client_message()))?;
    let grant = Grant {
        scope: Scope::All,
        rights: [Right::JobsRead].into_iter().collect(),
        types: Vec::new(),
        subjects: Vec::new(),
    };
    let who = format!("{SIGNED}{job}").into();
    Ok(Caller(Arc::new(Principal { who, name: None, grant, expires_at: None })))
}

/// Adds the rate limit headers, and refuses where nothing is left. Workers' reports are never
/// delayed: a late report costs a lease, and then the job runs twice.
fn check_rate(app: &AppState, route: &Route, caller: &Caller) -> (HeaderMap, Reply<()>) {
    let Some(rate) = app.authenticator.rate.as_ref().filter(|_| !route.is_report()) else {
        return (HeaderMap::new(), Ok(()));
    };
    let rate_state = rate.check(&caller.0.who);
    let policy = HeaderValue::from_str(&rate.policy()).expect("numbers are plain ASCII");
    let headers = [
        ("ratelimit-limit", rate_state.limit.into()),
        ("ratelimit-remaining", rate_state.remaining.into()),
        ("ratelimit-reset", rate_state.reset_seconds.into()),
        ("ratelimit-policy", policy),
    ];
    let headers = headers.map(|(name, value)| (HeaderName::from_static(name), value));
    let refusal = rate_state.retry_after_seconds.map(|seconds| {
        let error =
            ApiError::with_code(codes::RATE_LIMITED, "too many requests with this credential");
        ApiError::RetryAfter(Box::new(error), Duration::from_secs(seconds))
    });
    (HeaderMap::from_iter(headers), refusal.map_or(Ok(()), Err))
}
