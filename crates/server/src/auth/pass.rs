//! Lets those in who may use a route, and nobody else.

use super::{Caller, SIGNED};
use crate::{
    Door,
    guard::{Correlation, Who, accepts},
    no::{No, Reply},
    routes::{Access, Route, route_of},
    sent::{Params, let_pass},
};
use axum::{
    extract::{MatchedPath, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, header, request::Parts},
    middleware::Next,
    response::{IntoResponse, Response},
};
use engine::{Grant, JobId, KeySecret, Principal, Right, Scope};
use std::{sync::Arc, time::Duration};
use wire::codes;

/// What a route needs stands in the table of routes, so that no handler can forget it.
pub(crate) async fn pass(State(door): State<Door>, mut request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>();
    let route = path.and_then(|path| route_of(request.method(), path.as_str()));
    // A method that the path does not take: the router says so to whoever asks.
    let Some(route) = route else { return next.run(request).await };
    let (parts, body) = request.into_parts();
    let caller = match enter(&door, route, &parts).await {
        Ok(caller) => caller,
        Err(no) => {
            let_pass(&parts.headers, body).await;
            return no.into_response();
        }
    };
    request = Request::from_parts(parts, body);
    let Some(caller) = caller else { return next.run(request).await };
    let who = Who(caller.0.who.clone());
    let limits = match limit(&door, route, &caller) {
        Ok(limits) => limits,
        Err(over) => {
            let (parts, body) = request.into_parts();
            let_pass(&parts.headers, body).await;
            let mut response = (over.limits, over.no).into_response();
            response.extensions_mut().insert(who); // the log wants to know
            return response;
        }
    };
    request.extensions_mut().insert(caller);
    let mut response = next.run(request).await;
    response.headers_mut().extend(limits);
    response.extensions_mut().insert(who);
    response
}

/// What somebody showed at the gate, for those who stay long and are asked again.
#[derive(Clone)]
pub(crate) struct Shown(Parts);

impl Shown {
    /// What came with this request.
    pub(crate) fn with(parts: &Parts) -> Self {
        Shown(parts.clone())
    }

    /// Whether it still opens the door.
    pub(crate) async fn is_good(&self, door: &Door) -> Reply<()> {
        let path = self.0.extensions.get::<MatchedPath>();
        let route = path.and_then(|path| route_of(&self.0.method, path.as_str()));
        let route = route.expect("it came by a route");
        enter(door, route, &self.0).await.map(drop)
    }
}

/// The caller, where the route wants one.
async fn enter(door: &Door, route: &Route, parts: &Parts) -> Reply<Option<Caller>> {
    let right = match route.access {
        Access::Open => return Ok(None),
        Access::Right(right) | Access::Signed(right) => right,
    };
    let caller = match (route.access, signature(parts)?) {
        (Access::Signed(_), Some(sig)) if !parts.headers.contains_key(header::AUTHORIZATION) => {
            signed(door, parts.uri.path(), &sig)?
        }
        (Access::Open | Access::Right(_) | Access::Signed(_), _) => {
            authenticate(door, parts).await?
        }
    };
    caller.grant().may(right)?;
    accepts(&parts.headers, route.forms())?;
    Ok(Some(caller))
}

async fn authenticate(door: &Door, parts: &Parts) -> Reply<Caller> {
    let given = parts.headers.get(header::AUTHORIZATION).ok_or_else(missing)?;
    let bearer = given.to_str().ok().and_then(bearer).ok_or_else(missing)?;
    if let Some(secret) = KeySecret::parse(bearer) {
        return door.gate.keys.find(door, &secret).await?.map(Caller).ok_or_else(unknown);
    }
    let Some(jwt) = &door.gate.jwt else { return Err(unknown()) };
    let verified = jwt.verify(bearer, door.now()).await;
    let principal = verified.map_err(|refused| {
        let correlation = parts.extensions.get::<Correlation>().map(|known| known.id.to_string());
        tracing::info!(correlation, %refused, "a token was refused");
        if refused.is_unavailable() {
            let no = No::stated(codes::ISSUER_UNAVAILABLE, refused.told());
            return No::Later(Box::new(no), ISSUER_AWAY);
        }
        No::stated(codes::UNAUTHENTICATED, refused.told())
    })?;
    Ok(Caller(Arc::new(principal)))
}

/// An issuer's keys are not asked for more often.
const ISSUER_AWAY: Duration = Duration::from_secs(60);

fn bearer(text: &str) -> Option<&str> {
    let (scheme, token) = text.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn missing() -> No {
    No::stated(codes::UNAUTHENTICATED, "send Authorization: Bearer with a key or a token")
}

fn unknown() -> No {
    No::stated(codes::UNAUTHENTICATED, "the credential is unknown, expired or revoked")
}

fn signature(parts: &Parts) -> Reply<Option<String>> {
    Ok(Params::of(parts.uri.query())?.get("sig").map(str::to_owned))
}

/// Whoever has this address may see this one job, and nothing else: the handlers behind it look at no other.
fn signed(door: &Door, path: &str, sig: &str) -> Reply<Caller> {
    let job = path.split('/').nth(3).and_then(|id| JobId::parse(id).ok());
    let refused = |told| No::stated(codes::UNAUTHENTICATED, told);
    let job = job.ok_or_else(|| refused("the address was not signed for this job"))?;
    door.gate.seals.verify(job, sig, door.now()).map_err(|no| refused(no.told()))?;
    let grant = Grant {
        scope: Scope::All,
        rights: [Right::JobsRead].into_iter().collect(),
        types: Vec::new(),
        subjects: Vec::new(),
    };
    Ok(Caller(Arc::new(Principal { who: format!("{SIGNED}{job}").into(), grant })))
}

/// Says how much is left, or that nothing is. Workers' reports are never held up: a report that comes late costs
/// a lease, and then the job runs twice.
fn limit(door: &Door, route: &Route, caller: &Caller) -> Result<HeaderMap, Box<Over>> {
    let Some(rate) = door.gate.rate.as_ref().filter(|_| !route.is_report()) else {
        return Ok(HeaderMap::new());
    };
    let policy = rate.policy();
    match rate.check(&caller.0.who) {
        Ok(left) => {
            Ok(headers(&policy, [left.limit.into(), left.remaining.into(), left.reset_seconds]))
        }
        Err(exceeded) => {
            let after = Duration::from_secs(exceeded.retry_after_seconds);
            let no = No::stated(codes::RATE_LIMITED, "too many requests with this credential");
            let limits = headers(&policy, [exceeded.limit.into(), 0, exceeded.reset_seconds]);
            Err(Box::new(Over { no: No::Later(Box::new(no), after), limits }))
        }
    }
}

/// Somebody asked too often.
struct Over {
    no: No,
    limits: HeaderMap,
}

fn headers(policy: &str, [limit, remaining, reset]: [u64; 3]) -> HeaderMap {
    let names = ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"];
    let named = names.into_iter().zip([limit, remaining, reset]);
    let named =
        named.map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from(value)));
    let policy = HeaderValue::from_str(policy).expect("numbers are plain ASCII");
    named.chain([(HeaderName::from_static("ratelimit-policy"), policy)]).collect()
}
