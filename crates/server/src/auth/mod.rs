//! Authentication and authorization.
//!
//! A caller presents an API key, a token of a trusted issuer, or a URL that was signed for one job.
//! What the caller may do then is decided by `engine::Grant`.

mod authorize;
mod cursors;
mod failures;
pub(crate) mod jwt;
mod keys;
pub(crate) mod rate;
pub(crate) mod signing;
pub(crate) mod url_signing;

pub(crate) use authorize::{PresentedCredential, authorize};
pub(crate) use cursors::CursorOwner;
pub(crate) use failures::{CredentialFailure, CredentialFailures};
pub(crate) use keys::CredentialLookup;

use self::{jwt::Jwt, rate::RateLimiter};
use crate::{Settings, serve::StartError};
use engine::{Grant, Job, Principal, Right, Scope, Tenant};
use platform::Node;
use std::sync::Arc;
use store::Clock;

/// Everything that recognises credentials.
pub(crate) struct Authenticator {
    pub(crate) credentials: CredentialLookup,
    pub(crate) jwt: Option<Jwt>,
    pub(crate) rate: Option<RateLimiter>,
    pub(crate) failures: CredentialFailures,
}

impl Authenticator {
    /// Loads the credentials.
    pub(crate) async fn open(
        node: &Node,
        settings: &Settings,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self, StartError> {
        let credentials = CredentialLookup::default();
        credentials.current(node).await.map_err(StartError::Credentials)?;
        signing::rotate(node, clock.read().wall).await.map_err(StartError::Credentials)?;
        let mut jwt = None;
        if let Some(settings) = settings.jwt.clone() {
            jwt = Some(Jwt::open(settings, clock.read().wall).await.map_err(StartError::Jwt)?);
        }
        let rate = settings.rate.map(|rate| RateLimiter::new(rate, clock.clone()));
        Ok(Authenticator { credentials, jwt, rate, failures: CredentialFailures::default() })
    }
}

/// A recognised caller.
#[derive(Clone)]
pub(crate) struct Caller(pub(crate) Arc<Principal>);

/// The prefix of the names of callers with a signed URL.
const SIGNED: &str = "signed:";

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

    /// Whether a job of its scope is within its limits.
    pub(crate) fn reaches(&self, job: &Job) -> bool {
        self.grant().may_touch(&job.envelope).is_ok()
    }

    /// Whether it came with a signed URL.
    pub(crate) fn is_signed(&self) -> bool {
        self.0.who.starts_with(SIGNED)
    }

    /// Whether answers name the tenant: only a caller that sees several tenants needs it.
    pub(crate) fn sees_tenants(&self) -> bool {
        *self.scope() == Scope::All && !self.is_signed()
    }

    /// The name under which it waits for `job`. A tenant can have any number of URLs signed. All of
    /// them share the allowance of one principal, and take nothing from those of another tenant.
    pub(crate) fn waiting_principal(&self, job: Option<&Job>) -> Arc<str> {
        match job {
            Some(job) if self.is_signed() => format!("{SIGNED}{}", job.envelope.tenant).into(),
            Some(_) | None => self.0.who.clone(),
        }
    }

    /// The tenant of the jobs that this caller submits. A caller for all tenants submits for the
    /// default one.
    pub(crate) fn tenant(&self) -> Tenant {
        match self.scope() {
            Scope::One(tenant) => tenant.clone(),
            Scope::All => Tenant::default_tenant(),
        }
    }
}
