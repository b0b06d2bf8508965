//! Release jobs that their workers have not tried.

use crate::{
    Error, Platform, SettleResult,
    execute::{check_items, whole_seconds},
};
use engine::{Release, Scope, check_delay};

impl Platform {
    /// Releases jobs. Results are in request order.
    pub async fn release(
        &self,
        scope: &Scope,
        releases: Vec<Release>,
    ) -> Result<Vec<SettleResult>, Error> {
        check_items("items", releases.len())?;
        for release in &releases {
            check_delay("delaySeconds", whole_seconds(release.delay))?;
        }
        self.end_attempts(scope, releases.into_iter().map(Release::into_command)).await
    }
}
