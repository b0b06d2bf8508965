//! Who is asking, and whether they may come in.
//!
//! A caller shows an API key, a token of an issuer we believe, or an address that was signed for one job. What they
//! may do then is the engine's business.

mod authorize;
mod cursors;
mod failures;
pub(crate) mod jwt;
mod keys;
pub(crate) mod rate;
pub(crate) mod seals;
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

/// Everything that knows credentials.
pub(crate) struct Authenticator {
    pub(crate) credentials: CredentialLookup,
    pub(crate) jwt: Option<Jwt>,
    pub(crate) rate: Option<RateLimiter>,
    pub(crate) failures: CredentialFailures,
}

impl Authenticator {
    /// Reads what is known of credentials.
    pub(crate) async fn open(
        node: &Node,
        settings: &Settings,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self, StartError> {
        let credentials = CredentialLookup::default();
        credentials.current(node).await.map_err(StartError::Credentials)?;
        seals::rotate(node, clock.read().wall).await.map_err(StartError::Credentials)?;
        let mut jwt = None;
        if let Some(settings) = settings.jwt.clone() {
            jwt = Some(Jwt::open(settings, clock.read().wall).await.map_err(StartError::Jwt)?);
        }
        let rate = settings.rate.map(|rate| RateLimiter::new(rate, clock.clone()));
        Ok(Authenticator { credentials, jwt, rate, failures: CredentialFailures::default() })
    }
}

/// Somebody who has come in.
#[derive(Clone)]
pub(crate) struct Caller(pub(crate) Arc<Principal>);

/// What callers are called who came with a signed address.
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

    /// Whether it came with a signed address.
    pub(crate) fn is_signed(&self) -> bool {
        self.0.who.starts_with(SIGNED)
    }

    /// Whether answers name the tenant: only those who see several need it.
    pub(crate) fn sees_tenants(&self) -> bool {
        *self.scope() == Scope::All && !self.is_signed()
    }

    /// In whose name it waits for `job`. A tenant can have any number of addresses signed, so all
    /// of them share what one principal has, and take nothing from those of another tenant.
    pub(crate) fn waits_as(&self, job: Option<&Job>) -> Arc<str> {
        match job {
            Some(job) if self.is_signed() => format!("{SIGNED}{}", job.envelope.tenant).into(),
            Some(_) | None => self.0.who.clone(),
        }
    }

    /// Whose the jobs are that this caller hands over. Who acts for all tenants does so for the default one.
    pub(crate) fn tenant(&self) -> Tenant {
        match self.scope() {
            Scope::One(tenant) => tenant.clone(),
            Scope::All => Tenant::default_tenant(),
        }
    }
}
