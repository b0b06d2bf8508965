//! Stop a queue from being claimed, and let it go on.

use crate::{Error, Platform};
use engine::{JobType, Scope};
use store::Request;

impl Platform {
    /// Lets nobody claim from a queue; what runs goes on.
    pub async fn pause(&self, scope: &Scope, job_type: JobType) -> Result<(), Error> {
        self.set(Request::Pause { scope: scope.clone(), job_type }).await.map(drop)
    }

    /// Lets a paused queue be claimed from again.
    pub async fn resume(&self, scope: &Scope, job_type: JobType) -> Result<(), Error> {
        self.set(Request::Resume { scope: scope.clone(), job_type }).await.map(drop)
    }
}
