//! Release: a worker gives jobs back untried. It is answered like a settle.

use crate::{
    job_command::{JobCommand, held},
    object::objects,
    secret::Secret,
};
use engine::{Command, Findings, ITEMS_MAX, Refusal, ReleaseReason, check_count, check_delay};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A worker gives jobs back.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", expecting = "an object")]
pub struct ReleaseRequest {
    /// One for each job.
    #[serde(deserialize_with = "objects")]
    pub items: Vec<ReleaseItem>,
}

/// One job that is given back.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
#[expect(missing_docs, reason = "the fields are the contract's own")]
pub struct ReleaseItem {
    #[schema(required)]
    pub job_id: String,
    #[schema(required)]
    pub token: Secret,
    pub delay_seconds: Option<i64>,
}

impl ReleaseRequest {
    /// Checks that there are not too many jobs.
    pub fn check_count(&self) -> Result<(), Refusal> {
        Ok(check_count("items", self.items.len(), 0..=ITEMS_MAX)?)
    }
}

impl ReleaseItem {
    /// Checks one entry. Who names a delay snoozes; who does not only stops.
    pub fn check(&self) -> Result<JobCommand, Refusal> {
        let mut findings = Findings::default();
        let held = held(&self.job_id, &self.token, &mut findings);
        let delay = self.delay_seconds.unwrap_or(0);
        let delay = findings.keep(check_delay("delaySeconds", delay));
        let (Some((job_id, token)), Some(delay)) = (held, delay) else {
            return Err(findings.refusal());
        };
        let reason = if delay.is_zero() { ReleaseReason::Released } else { ReleaseReason::Snoozed };
        Ok(JobCommand { job_id, command: Command::Release { token, reason, delay } })
    }
}
