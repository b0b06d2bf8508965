//! Take a job out of the poison queue for good.

use crate::{Error, Platform};
use engine::{Command, Job, JobId, Scope};

impl Platform {
    /// Discards a poisoned job: it stays as it ended, but waits for nobody any more.
    pub async fn discard(&self, scope: &Scope, id: JobId) -> Result<Job, Error> {
        self.change(scope, id, Command::Discard).await
    }
}
