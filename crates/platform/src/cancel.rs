//! Stop a job that nobody wants any more.

use crate::{Error, Platform};
use engine::{Command, Job, JobId, Scope};

impl Platform {
    /// Cancels a waiting job at once, and asks the worker of a running one to stop.
    pub async fn cancel(&self, scope: &Scope, id: JobId) -> Result<Job, Error> {
        self.change(scope, id, Command::Cancel).await
    }
}
