//! Take jobs back that their workers have not tried.

use crate::{
    Error, Platform, Verdict,
    execute::{check_items, whole_seconds},
};
use engine::{Release, Scope, check_delay};

impl Platform {
    /// Takes jobs back, each with a verdict of its own, in the order in which they were given.
    pub async fn release(
        &self,
        scope: &Scope,
        releases: Vec<Release>,
    ) -> Result<Vec<Verdict>, Error> {
        check_items("items", releases.len())?;
        for release in &releases {
            check_delay("delaySeconds", whole_seconds(release.delay))?;
        }
        self.end_attempts(scope, releases.into_iter().map(Release::into_command)).await
    }
}
