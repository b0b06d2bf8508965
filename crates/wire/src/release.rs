//! Release: a worker gives jobs back untried. It is answered like a settle.

use crate::{lease_reference::lease_reference, list::at_most, page_item::PageItem, secret::Secret};
use engine::{
    Checked, FieldProblem, Findings, ITEMS_MAX, Refusal, Release, ReleaseReason, check_count,
    check_delay,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A worker gives jobs back.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", expecting = "an object")]
pub struct ReleaseRequest {
    /// One for each job.
    #[serde(deserialize_with = "at_most::<_, _, ITEMS_MAX>")]
    #[schema(value_type = Vec<ReleaseItem>)]
    pub items: Vec<PageItem<ReleaseItem>>,
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
    /// `false` where the worker did not start the handler: its machine lacks descriptors, processes
    /// or memory, or the worker stops first. Then the job is as if it had not been claimed, however
    /// often.
    pub started: Option<bool>,
    /// `childrenEnded` where the handler waits for the children of its job: no worker gets the job
    /// before the last of them has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
}

impl ReleaseRequest {
    /// Checks that there are not too many jobs.
    pub fn check_count(&self) -> Result<(), Refusal> {
        Ok(check_count("items", self.items.len(), 0..=ITEMS_MAX)?)
    }
}

impl ReleaseItem {
    /// Checks one entry. With a delay it is a snooze; without one, the worker only stops. A job
    /// that was not started returns to its position in the queue, whatever the delay.
    pub fn check(&self) -> Result<Release, Refusal> {
        let mut findings = Findings::default();
        let reference = lease_reference(&self.job_id, &self.token, &mut findings);
        let delay = self.delay_seconds.unwrap_or(0);
        let delay = findings.keep(check_delay("delaySeconds", delay));
        let awaits_children = findings.keep(self.checked_until());
        let (Some((id, token)), Some(delay), Some(awaits_children)) =
            (reference, delay, awaits_children)
        else {
            return Err(findings.refusal());
        };
        let reason = match self.started {
            _ if awaits_children => ReleaseReason::AwaitsChildren,
            Some(false) => ReleaseReason::NotStarted,
            Some(true) | None if delay.is_zero() => ReleaseReason::Released,
            Some(true) | None => ReleaseReason::Snoozed,
        };
        Ok(Release { id, token, reason, delay })
    }

    /// Whether the job waits for its children.
    fn checked_until(&self) -> Checked<bool> {
        let problem = |detail: &str| Err(FieldProblem::new("until", detail));
        match self.until.as_deref() {
            None => Ok(false),
            Some(CHILDREN_ENDED) if self.started == Some(false) => {
                problem("must not be given where the handler was not started")
            }
            Some(CHILDREN_ENDED) if self.delay_seconds.is_some_and(|delay| delay != 0) => {
                problem("must not be given together with delaySeconds")
            }
            Some(CHILDREN_ENDED) => Ok(true),
            Some(_) => problem("must be childrenEnded"),
        }
    }
}

/// What a job may wait for.
pub const CHILDREN_ENDED: &str = "childrenEnded";
