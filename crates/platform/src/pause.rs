//! Pause and resume a queue.

use crate::{Actor, Error, Platform, request::TypedRequest};
use engine::{JobType, Pause, PauseNote, PauseReason, Scope};
use std::sync::Arc;
use store::Request;

impl Platform {
    /// Stops claims from a queue; running jobs go on. A queue that is paused already keeps its
    /// pause, with its actor and reason.
    pub async fn pause(
        &self,
        scope: &Scope,
        job_type: JobType,
        reason: Option<&PauseReason>,
        actor: Option<&Actor>,
    ) -> Result<(), Error> {
        let note = PauseNote {
            by: actor.map(|actor| actor.who.clone()),
            by_name: actor.and_then(|actor| actor.name.clone()),
            reason: reason.cloned(),
        };
        let request = Request::Pause { scope: scope.clone(), job_type: job_type.clone(), note };
        let detail = |pauses: &[Pause]| engine::pause_change(pauses, scope, &job_type, reason);
        self.change_pause(request, actor, "queue.pause", &job_type, detail).await
    }

    /// Allows claims from a paused queue again.
    pub async fn resume(
        &self,
        scope: &Scope,
        job_type: JobType,
        actor: Option<&Actor>,
    ) -> Result<(), Error> {
        let request = Request::Resume { scope: scope.clone(), job_type: job_type.clone() };
        let detail = |pauses: &[Pause]| engine::resume_change(pauses, scope, &job_type);
        self.change_pause(request, actor, "queue.resume", &job_type, detail).await
    }

    /// Only an audit entry needs the pauses before the change, and so its `detail`.
    async fn change_pause(
        &self,
        request: Request,
        actor: Option<&Actor>,
        action: &'static str,
        job_type: &JobType,
        detail: impl Fn(&[Pause]) -> Arc<str>,
    ) -> Result<(), Error> {
        let mut request = TypedRequest::without_answer(request);
        if actor.is_some() {
            let detail = detail(&self.store.pauses().await?);
            request = request.audited(actor, action, job_type, Some(detail));
        }
        self.change_setting(request).await
    }
}
