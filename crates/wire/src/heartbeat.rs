//! Heartbeat: a worker says that it lives, and learns how its leases stand.
//!
//! One bad entry must not cost a worker its other leases, so entries are checked one by one, and a
//! bad progress is left out instead of the sign of life it came with.

use crate::{
    body::{Unreadable, read},
    held::held,
    list::at_most,
    page_item::PageItem,
    problem::Problem,
    secret::Secret,
    time::Rfc3339,
};
use engine::{
    Beat, Checked, FieldProblem, Findings, ITEMS_MAX, JobId, LeaseState, ProgressReport, Refusal,
    Timestamp, WorkerId, check_count,
};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

/// A worker says that it lives.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", expecting = "an object")]
#[expect(missing_docs, reason = "the fields are the contract's own")]
pub struct HeartbeatRequest {
    #[serde(default)]
    #[schema(required)]
    pub worker_id: String,
    /// Must be there, be it empty: a worker that misspells it would lose its leases and not know why.
    #[serde(deserialize_with = "at_most::<_, _, ITEMS_MAX>")]
    #[schema(value_type = Vec<HeartbeatItem>)]
    pub leases: Vec<PageItem<HeartbeatItem>>,
}

/// One lease that it holds.
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

/// How far the handler says it is.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
#[expect(missing_docs, reason = "the fields are the contract's own")]
pub struct ProgressRequest {
    #[schema(required, value_type = i64)]
    pub percent: Option<i64>,
    pub note: Option<String>,
    /// Why it could not be read. It is left out then, and the sign of life counts.
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
    /// The heartbeat, and the job it is for.
    pub beat: Beat,
    /// What was wrong with the progress, which was left out then.
    pub left_out: Option<Refusal>,
}

/// How the leases stand, in the order they were asked about.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct HeartbeatAnswer {
    /// One for each.
    pub leases: Vec<HeartbeatResult>,
}

/// How one lease stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = LeaseState)]
pub struct HeartbeatResult {
    /// Whose lease.
    pub job_id: String,
    /// How it stands.
    pub state: LeaseWord,
    /// When it lapses, while it holds.
    pub expires_at: Option<Rfc3339>,
    /// What was wrong with the entry, if something was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
}

/// The contract's words for how a lease stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the variants are the contract's own words")]
#[schema(as = PulseState)]
pub enum LeaseWord {
    Extended,
    CancelRequested,
    Lost,
    Ended,
}

impl HeartbeatRequest {
    /// Checks who it is, and that there are not too many leases. None at all is a sign of life too.
    pub fn check(&self) -> Result<WorkerId, Refusal> {
        check_count("leases", self.leases.len(), 0..=ITEMS_MAX)?;
        Ok(WorkerId::parse(&self.worker_id)?)
    }
}

impl HeartbeatItem {
    /// Checks one entry.
    pub fn check(&self) -> Result<CheckedHeartbeat, Refusal> {
        let mut findings = Findings::default();
        let Some((id, token)) = held(&self.job_id, &self.token, &mut findings) else {
            return Err(findings.refusal());
        };
        let progress = self.progress.as_ref().map(ProgressRequest::check);
        let progress = findings.keep_given(progress);
        let left_out = (!findings.is_empty()).then(|| findings.refusal());
        Ok(CheckedHeartbeat { beat: Beat { id, token, progress }, left_out })
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
    /// Shows what the engine said.
    pub fn new(job_id: JobId, lease_state: LeaseState) -> Self {
        let (state, expires_at) = word(lease_state);
        let expires_at = expires_at.map(Rfc3339);
        HeartbeatResult { job_id: job_id.to_string(), state, expires_at, problem: None }
    }

    /// The answer to an entry that could not be read: whatever it was, it is no lease of ours.
    pub fn refused(job_id: &str, problem: Problem) -> Self {
        let (job_id, problem) = (job_id.into(), Some(problem));
        HeartbeatResult { job_id, state: LeaseWord::Lost, expires_at: None, problem }
    }
}

fn word(lease_state: LeaseState) -> (LeaseWord, Option<Timestamp>) {
    match lease_state {
        LeaseState::Extended(until) => (LeaseWord::Extended, Some(until)),
        LeaseState::CancelRequested(until) => (LeaseWord::CancelRequested, Some(until)),
        LeaseState::Lost => (LeaseWord::Lost, None),
        LeaseState::Ended => (LeaseWord::Ended, None),
    }
}
