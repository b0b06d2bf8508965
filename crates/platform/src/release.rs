//! Take jobs back that their workers have not tried.

use crate::{
    Error, Platform, Verdict,
    execute::{check_items, whole_seconds},
    settle::{verdict, waits_again},
};
use engine::{Command, JobId, LeaseToken, ReleaseReason, Scope, check_delay};
use std::time::Duration;

/// A job that its worker gives back.
#[derive(Clone, Debug)]
pub struct Release {
    /// The job.
    pub id: JobId,
    /// The lease.
    pub token: LeaseToken,
    /// Why.
    pub reason: ReleaseReason,
    /// How long nobody should try.
    pub delay: Duration,
}

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
        let commands = releases.into_iter().map(|back| {
            let Release { id, token, reason, delay } = back;
            (id, Command::Release { token, reason, delay })
        });
        let verdicts: Vec<Verdict> =
            self.each(scope, commands).await?.into_iter().map(verdict).collect();
        if verdicts.iter().any(waits_again) {
            self.bell.ring();
        }
        Ok(verdicts)
    }
}
