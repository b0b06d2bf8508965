//! Take a job out of the poison queue for good.

use crate::{Actor, Error, Platform, request::TypedRequest};
use engine::{Command, Job, JobId, Scope};

impl Platform {
    /// Discards a poisoned job: it keeps its outcome, but leaves the poison queue.
    pub async fn discard(
        &self,
        scope: &Scope,
        id: JobId,
        actor: Option<&Actor>,
    ) -> Result<Job, Error> {
        let request = TypedRequest::change(scope, id, Command::Discard);
        self.execute_one(request.audited(actor, "job.discard", id, None)).await
    }
}
