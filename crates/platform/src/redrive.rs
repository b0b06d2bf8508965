//! Redrive: give an ended job another life.

use crate::{Actor, Error, Platform, request::TypedRequest};
use engine::{Command, Job, JobId, Scope, check_max_attempts};
use std::sync::Arc;

impl Platform {
    /// Queues an ended job again, with all its attempts or with `max_attempts` of them.
    pub async fn redrive(
        &self,
        scope: &Scope,
        id: JobId,
        max_attempts: Option<i64>,
        reset_steps: bool,
        actor: Option<&Actor>,
    ) -> Result<Job, Error> {
        let max_attempts = max_attempts.map(check_max_attempts).transpose()?;
        let request =
            TypedRequest::change(scope, id, Command::Redrive { max_attempts, reset_steps });
        let detail = audit_detail(max_attempts, reset_steps);
        self.execute_one(request.audited(actor, "job.redrive", id, detail)).await
    }
}

/// The audit log's detail of a redrive with unusual arguments.
fn audit_detail(max_attempts: Option<u32>, reset_steps: bool) -> Option<Arc<str>> {
    let attempts = max_attempts.map(|max| format!("maxAttempts {max}"));
    let steps = reset_steps.then(|| "resetSteps".to_owned());
    let detail: Vec<String> = attempts.into_iter().chain(steps).collect();
    (!detail.is_empty()).then(|| detail.join(", ").into())
}
