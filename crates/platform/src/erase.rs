//! Make every trace of an ended job disappear.

use crate::{Error, Platform};
use engine::{Command, JobId, Scope};

impl Platform {
    /// Erases an ended job with its payload, history, steps and key.
    pub async fn erase(&self, scope: &Scope, id: JobId) -> Result<(), Error> {
        self.command(scope, id, Command::Erase).await.map(drop)
    }
}
