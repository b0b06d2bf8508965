//! Give an ended job another life.

use crate::{Error, Platform};
use engine::{Command, Job, JobId, Scope, check_max_attempts};

impl Platform {
    /// Queues an ended job again, with all its attempts or with `max_attempts` of them.
    pub async fn redrive(
        &self,
        scope: &Scope,
        id: JobId,
        max_attempts: Option<i64>,
        reset_steps: bool,
    ) -> Result<Job, Error> {
        let max_attempts = max_attempts.map(check_max_attempts).transpose()?;
        self.change(scope, id, Command::Redrive { max_attempts, reset_steps }).await
    }
}
