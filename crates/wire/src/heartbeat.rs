//! Heartbeat: a worker says that it is alive, and learns the state of its leases.
//!
//! One bad entry must not cost a worker its other leases, so entries are checked one by one. A bad
//! progress is ignored, and its heartbeat still counts.

use crate::{
    body::{Unreadable, read},
    lease_reference::lease_reference,
    list::at_most,
    page_item::PageItem,
    problem::Problem,
    secret::Secret,
    time::Rfc3339,
};
use engine::{
    Checked, FieldProblem, Findings, Heartbeat, ITEMS_MAX, JobId, LeaseState, ProgressReport,
    Refusal, WorkerId, check_count,
};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

/// A worker says that it is alive.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", expecting = "an object")]
#[expect(missing_docs, reason = "the fields are the contract's own")]
pub struct HeartbeatRequest {
    #[serde(default)]
    #[schema(required)]
    pub worker_id: String,
    /// Required, even if empty: a worker that misspells the name would lose its leases without an
    /// error.
    #[serde(deserialize_with = "at_most::<_, _, ITEMS_MAX>")]
    #[schema(value_type = Vec<HeartbeatItem>)]
    pub leases: Vec<PageItem<HeartbeatItem>>,
}

/// One lease that the worker holds.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
#[expect(missing_docs, reason = "the fields are the contract's own")]
pub struct HeartbeatItem {
    #[schema(required)]
    pub job_id: String,
    #[schema(required)]
    pub token: Secret,
    #[serde(deserialize_with = "progress_or_misread")]
    pub progress: Option<ProgressRequest>,
}

/// The progress of the handler.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
#[expect(missing_docs, reason = "the fields are the contract's own")]
pub struct ProgressRequest {
    #[schema(required, value_type = i64)]
    pub percent: Option<i64>,
    pub note: Option<String>,
    /// Why the progress could not be read. It is then ignored, and the heartbeat counts.
    #[serde(skip)]
    #[schema(ignore)]
    pub misread: Option<Unreadable>,
}

fn progress_or_misread<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<ProgressRequest>, D::Error> {
    let text = Option::<&RawValue>::deserialize(deserializer)?;
    Ok(text.map(|text| {
        read(text.get().as_bytes()).unwrap_or_else(|error| ProgressRequest {
            misread: Some(error),
            ..ProgressRequest::default()
        })
    }))
}

/// A checked entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedHeartbeat {
    /// The heartbeat, and its job.
    pub heartbeat: Heartbeat,
    /// What was wrong with the progress, which is then ignored.
    pub ignored_progress: Option<Refusal>,
}

/// The state of the leases, in the order of the request.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct HeartbeatAnswer {
    /// One for each.
    pub leases: Vec<HeartbeatResult>,
}

/// The state of one lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HeartbeatResult {
    /// The job of the lease.
    pub job_id: String,
    /// The state of the lease.
    pub state: LeaseStateName,
    /// When the lease runs out, while it holds.
    pub expires_at: Option<Rfc3339>,
    /// What is wrong with the entry, if anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
}

/// The contract's names for the state of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the variants are the contract's own words")]
#[schema(as = LeaseState)]
pub enum LeaseStateName {
    Extended,
    CancelRequested,
    Lost,
    Ended,
}

impl HeartbeatRequest {
    /// Checks the worker's name and the number of leases. An empty list is a heartbeat of the
    /// worker, too.
    pub fn check(&self) -> Result<WorkerId, Refusal> {
        check_count("leases", self.leases.len(), 0..=ITEMS_MAX)?;
        Ok(WorkerId::parse(&self.worker_id)?)
    }
}

impl HeartbeatItem {
    /// Checks one entry.
    pub fn check(&self) -> Result<CheckedHeartbeat, Refusal> {
        let mut findings = Findings::default();
        let Some((id, token)) = lease_reference(&self.job_id, &self.token, &mut findings) else {
            return Err(findings.refusal());
        };
        let progress = self.progress.as_ref().map(ProgressRequest::check);
        let progress = findings.keep_optional(progress);
        let ignored_progress = (!findings.is_empty()).then(|| findings.refusal());
        Ok(CheckedHeartbeat { heartbeat: Heartbeat { id, token, progress }, ignored_progress })
    }
}

impl ProgressRequest {
    fn check(&self) -> Checked<ProgressReport> {
        if let Some(Unreadable { pointer, detail }) = self.misread.clone() {
            let problem = FieldProblem::new("progress", detail);
            return Err(problem.within(pointer.unwrap_or_default()));
        }
        let missing = || FieldProblem::new("progress.percent", "must be given, from 0 to 100");
        ProgressReport::check(self.percent.ok_or_else(missing)?, self.note.as_deref())
    }
}

impl HeartbeatResult {
    /// The engine's answer.
    pub fn new(job_id: JobId, lease_state: LeaseState) -> Self {
        let (state, expires_at) = match lease_state {
            LeaseState::Extended(until) => (LeaseStateName::Extended, Some(Rfc3339(until))),
            LeaseState::CancelRequested(until) => {
                (LeaseStateName::CancelRequested, Some(Rfc3339(until)))
            }
            LeaseState::Lost => (LeaseStateName::Lost, None),
            LeaseState::Ended => (LeaseStateName::Ended, None),
        };
        HeartbeatResult { job_id: job_id.to_string(), state, expires_at, problem: None }
    }

    /// The answer to an entry that could not be read: it names no lease of this store.
    pub fn refused(job_id: &str, problem: Problem) -> Self {
        let (job_id, problem) = (job_id.into(), Some(problem));
        HeartbeatResult { job_id, state: LeaseStateName::Lost, expires_at: None, problem }
    }
}
