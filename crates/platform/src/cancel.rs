//! Cancel a job.

use crate::{Actor, Error, Platform, request::TypedRequest};
use engine::{Command, Job, JobId, Scope};

impl Platform {
    /// Cancels a waiting job at once, and asks the worker of a running one to stop.
    pub async fn cancel(
        &self,
        scope: &Scope,
        id: JobId,
        actor: Option<&Actor>,
    ) -> Result<Job, Error> {
        let request = TypedRequest::change(scope, id, Command::Cancel);
        self.execute_one(request.audited(actor, "job.cancel", id, None)).await
    }
}
