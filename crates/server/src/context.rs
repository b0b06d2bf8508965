//! The context of a request behind authorization.

use crate::{
    AppState,
    auth::{Caller, CursorOwner},
    error::Reply,
    middleware::Correlation,
    waiting::{NoWaitingSlot, WaitingSlot},
};
use axum::{extract::FromRequestParts, http::request::Parts};
use engine::{Grant, Job, JobId, Scope};
use platform::{Actor, Node};
use std::convert::Infallible;

/// The caller, the correlation and the shared state.
pub(crate) struct RequestContext {
    pub(crate) app: AppState,
    pub(crate) caller: Caller,
    pub(crate) correlation: Correlation,
}

impl FromRequestParts<AppState> for RequestContext {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self, Infallible> {
        let caller = parts.extensions.get().cloned().expect("authorize put the caller in");
        let correlation =
            parts.extensions.get().cloned().expect("request_middleware put the correlation in");
        Ok(RequestContext { app: app.clone(), caller, correlation })
    }
}

impl RequestContext {
    pub(crate) fn node(&self) -> &Node {
        &self.app.node
    }

    pub(crate) fn scope(&self) -> &Scope {
        self.caller.scope()
    }

    pub(crate) fn grant(&self) -> &Grant {
        self.caller.grant()
    }

    /// The actor that the audit log names.
    pub(crate) fn actor(&self) -> Actor {
        Actor::new(&self.caller.0, self.correlation.id.clone())
    }

    /// Reads a job, if the caller may see it.
    pub(crate) async fn job(&self, id: JobId) -> Reply<Job> {
        let job = self.node().job(self.scope(), id).await?;
        self.grant().may_touch(&job.envelope)?;
        Ok(job)
    }

    /// The list and scope that a cursor of this caller is bound to.
    pub(crate) fn cursor_owner(&self, list: &'static str) -> CursorOwner<'_> {
        CursorOwner { list, scope: self.scope() }
    }

    /// Takes a waiting slot, if one is left for this caller and this job.
    pub(crate) fn waiting_slot(&self, job: Option<&Job>) -> Result<WaitingSlot, NoWaitingSlot> {
        self.app.waiting.take(&self.caller, job)
    }
}
