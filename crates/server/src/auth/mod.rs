//! Who is asking, and whether they may come in.

mod keys;

pub(crate) use keys::KeyRing;

use crate::{
    Door,
    guard::Who,
    no::{No, Reply},
    routes::{Access, access_of},
};
use axum::{
    extract::{FromRequestParts, MatchedPath, Request, State},
    http::{HeaderMap, Method, header, request::Parts},
    middleware::Next,
    response::{IntoResponse, Response},
};
use engine::{Grant, Principal, Right, Scope, Tenant};
use std::sync::Arc;
use wire::codes;

/// Everything that knows credentials.
pub(crate) struct Gate {
    pub(crate) keys: KeyRing,
}

/// Somebody who has come in.
#[derive(Clone)]
pub(crate) struct Caller(pub(crate) Arc<Principal>);

impl Caller {
    pub(crate) fn grant(&self) -> &Grant {
        &self.0.grant
    }

    pub(crate) fn scope(&self) -> &Scope {
        &self.0.grant.scope
    }

    pub(crate) fn may(&self, right: Right) -> bool {
        self.grant().may(right).is_ok()
    }

    /// Whose the jobs are that this caller hands over. Who acts for all tenants does so for the default one.
    pub(crate) fn tenant(&self) -> Tenant {
        match self.scope() {
            Scope::One(tenant) => tenant.clone(),
            Scope::All => Tenant::default_tenant(),
        }
    }
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let caller = parts.extensions.get::<Caller>().cloned();
        Ok(caller.expect("nobody gets to a handler with a caller but through the gate"))
    }
}

/// Lets those in who may use this route, and nobody else. What a route needs stands in the table of routes,
/// so that no handler can forget it.
pub(crate) async fn pass(State(door): State<Door>, mut request: Request, next: Next) -> Response {
    let caller = match enter(&door, &request).await {
        Ok(caller) => caller,
        Err(no) => return no.into_response(),
    };
    let Some(caller) = caller else { return next.run(request).await };
    let who = Who(caller.0.who.clone());
    request.extensions_mut().insert(caller);
    let mut response = next.run(request).await;
    response.extensions_mut().insert(who);
    response
}

/// The caller, where the route wants one.
async fn enter(door: &Door, request: &Request) -> Reply<Option<Caller>> {
    let path = request.extensions().get::<MatchedPath>();
    let access = path.and_then(|path| access_of(request.method(), path.as_str()));
    let right = match access {
        Some(Access::Open) => return Ok(None),
        Some(Access::Right(right) | Access::Signed(right)) => right,
        // A method that the path does not take: the router says so to whoever asks.
        None => return Ok(None),
    };
    let caller = authenticate(door, request.headers()).await?;
    caller.grant().may(right)?;
    Ok(Some(caller))
}

async fn authenticate(door: &Door, headers: &HeaderMap) -> Reply<Caller> {
    let given = headers.get(header::AUTHORIZATION).ok_or_else(missing)?;
    let bearer = given.to_str().ok().and_then(bearer).ok_or_else(missing)?;
    let principal = door.keys().find(door, bearer).await?;
    principal.map(Caller).ok_or_else(unknown)
}

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

/// HEAD is asked of what GET answers.
pub(crate) fn as_asked(method: &Method) -> &Method {
    if method == Method::HEAD { &Method::GET } else { method }
}
