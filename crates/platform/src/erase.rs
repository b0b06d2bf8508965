//! Make every trace of an ended job disappear.

use crate::{Error, Platform};
use engine::{Command, JobId, Scope};
use store::Request;

impl Platform {
    /// Erases an ended job with its payload, history, steps and key.
    pub async fn erase(&self, scope: &Scope, id: JobId) -> Result<(), Error> {
        let request = Request::Job { scope: scope.clone(), id, command: Command::Erase };
        self.execute_one(request).await.map(drop)
    }
}
