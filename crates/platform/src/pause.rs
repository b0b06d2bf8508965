//! Pause and resume a queue.

use crate::{Actor, Error, Platform, request::TypedRequest};
use engine::{JobType, PauseReason, Scope};
use store::Request;

impl Platform {
    /// Stops claims from a queue; running jobs go on.
    pub async fn pause(
        &self,
        scope: &Scope,
        job_type: JobType,
        reason: Option<&PauseReason>,
        actor: Option<&Actor>,
    ) -> Result<(), Error> {
        let detail = match actor {
            Some(_) => {
                let before = self.store.pauses().await?;
                Some(engine::pause_change(&before, scope, &job_type, reason))
            }
            None => None,
        };
        let pause = Request::Pause { scope: scope.clone(), job_type: job_type.clone() };
        self.change_setting(TypedRequest::without_answer(pause).audited(
            actor,
            "queue.pause",
            job_type,
            detail,
        ))
        .await
    }

    /// Allows claims from a paused queue again.
    pub async fn resume(
        &self,
        scope: &Scope,
        job_type: JobType,
        actor: Option<&Actor>,
    ) -> Result<(), Error> {
        let detail = match actor {
            Some(_) => {
                let before = self.store.pauses().await?;
                Some(engine::resume_change(&before, scope, &job_type))
            }
            None => None,
        };
        let resume = Request::Resume { scope: scope.clone(), job_type: job_type.clone() };
        self.change_setting(TypedRequest::without_answer(resume).audited(
            actor,
            "queue.resume",
            job_type,
            detail,
        ))
        .await
    }
}
