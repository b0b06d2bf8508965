//! What every handler behind the gate is given.

use crate::{
    AppState,
    auth::{Caller, CursorOwner},
    error::Reply,
    middleware::Correlation,
    waiting::{NoPlace, WaitingPlace},
};
use axum::{extract::FromRequestParts, http::request::Parts};
use engine::{Grant, Job, JobId, Scope};
use platform::{Actor, Node};
use std::convert::Infallible;

/// Who asks, under which correlation, and what all handlers share.
pub(crate) struct RequestContext {
    pub(crate) app: AppState,
    pub(crate) caller: Caller,
    pub(crate) correlation: Correlation,
}

impl FromRequestParts<AppState> for RequestContext {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self, Infallible> {
        let caller = parts.extensions.get().cloned().expect("the gate has let the caller in");
        let correlation = parts.extensions.get().cloned().expect("the guard comes before all else");
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

    /// Who the audit log says did it.
    pub(crate) fn actor(&self) -> Actor {
        Actor::new(&self.caller.0, self.correlation.id.clone())
    }

    /// A job that the caller may see.
    pub(crate) async fn job(&self, id: JobId) -> Reply<Job> {
        let job = self.node().job(self.scope(), id).await?;
        self.grant().may_touch(&job.envelope)?;
        Ok(job)
    }

    /// The caller's own view of a list, which its cursors belong to.
    pub(crate) fn owns(&self, list: &'static str) -> CursorOwner<'_> {
        CursorOwner { list, scope: self.scope() }
    }

    /// A place among the requests that wait, if there is one left for this caller and this job.
    pub(crate) fn place_to_wait(&self, job: Option<&Job>) -> Result<WaitingPlace, NoPlace> {
        self.app.waiting.take(&self.caller, job)
    }
}
