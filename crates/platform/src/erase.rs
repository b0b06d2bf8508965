//! Erase every trace of an ended job.

use crate::{Actor, Error, Platform, request::TypedRequest};
use engine::{Command, JobId, Scope};

impl Platform {
    /// Erases an ended job with its payload, history, steps and key.
    pub async fn erase(
        &self,
        scope: &Scope,
        id: JobId,
        actor: Option<&Actor>,
    ) -> Result<(), Error> {
        let request = TypedRequest::command(scope, id, Command::Erase);
        self.execute_one(request.audited(actor, "job.erase", id, None)).await
    }
}
