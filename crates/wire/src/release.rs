//! Release: a worker gives jobs back untried. It is answered like a settle.

use crate::{
    findings::{Findings, count_in, in_range},
    job_command::{ITEMS_MAX, JobCommand, held},
    secret::Secret,
};
use engine::{Command, Refusal, ReleaseReason};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A worker gives jobs back.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
pub struct ReleaseRequest {
    /// One for each job.
    pub items: Vec<ReleaseItem>,
}

/// One job that is given back.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
#[expect(missing_docs, reason = "the fields are the contract's own")]
pub struct ReleaseItem {
    pub job_id: String,
    pub token: Secret,
    pub delay_seconds: Option<i64>,
}

/// Ten years, as for every delay that a client may ask for.
const DELAY_SECONDS_MAX: u32 = 315_360_000;

impl ReleaseRequest {
    /// Checks that there are not too many jobs.
    pub fn check_count(&self) -> Result<(), Refusal> {
        Ok(count_in("items", self.items.len(), 0..=ITEMS_MAX)?)
    }
}

impl ReleaseItem {
    /// Checks one entry. Who names a delay snoozes; who does not only stops.
    pub fn check(&self) -> Result<JobCommand, Refusal> {
        let mut findings = Findings::default();
        let held = held(&self.job_id, &self.token, &mut findings);
        let seconds = self.delay_seconds.unwrap_or(0);
        let seconds = findings.keep(in_range("delaySeconds", seconds, 0..=DELAY_SECONDS_MAX));
        let (Some((job_id, token)), Some(seconds)) = (held, seconds) else {
            return Err(findings.refusal());
        };
        let delay = Duration::from_secs(seconds.into());
        let reason = if delay.is_zero() { ReleaseReason::Released } else { ReleaseReason::Snoozed };
        Ok(JobCommand { job_id, command: Command::Release { token, reason, delay } })
    }
}
