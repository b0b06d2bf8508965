//! Explain: why a job is not running.

use crate::time::Rfc3339;
use engine::{Reason, Status};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Every code that a reason may have, as the contract lists them.
pub const REASON_CODES: [&str; 9] = [
    "NO_LIVE_WORKER",
    "NOT_DUE",
    "RETRY_WAIT",
    "QUEUE_PAUSED",
    "BEHIND_OTHERS",
    "LIMIT_REACHED",
    "CANCEL_REQUESTED",
    "RUNNING",
    "ENDED",
];

/// The status of a job, and everything that keeps it from running.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the fields are the contract's own")]
pub struct Explanation {
    pub status: String,
    pub reasons: Vec<ExplainReason>,
}

/// One reason. Each code has fields of its own; those of the others are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, rename_all = "camelCase")]
#[expect(missing_docs, reason = "the fields are those of the engine's reasons")]
#[schema(as = Reason)]
pub struct ExplainReason {
    pub code: String,
    pub detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_at: Option<Rfc3339>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ahead: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Rfc3339>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_expires_at: Option<Rfc3339>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Rfc3339>,
}

impl Explanation {
    /// The reasons of the engine.
    pub fn new(status: Status, reasons: &[Reason]) -> Self {
        let reasons = reasons.iter().map(ExplainReason::from).collect();
        Explanation { status: status.to_string(), reasons }
    }
}

impl From<&Reason> for ExplainReason {
    fn from(reason: &Reason) -> Self {
        let shape = ExplainReason {
            code: reason.code().into(),
            detail: reason.detail(),
            ..ExplainReason::default()
        };
        match reason {
            Reason::NoLiveWorker { job_type } | Reason::QueuePaused { job_type } => {
                ExplainReason { job_type: Some(job_type.to_string()), ..shape }
            }
            Reason::NotDue { run_at } => ExplainReason { run_at: Some(Rfc3339(*run_at)), ..shape },
            Reason::RetryWait { run_at, attempt, error_code } => ExplainReason {
                run_at: Some(Rfc3339(*run_at)),
                attempt: Some(*attempt),
                error_code: error_code.as_ref().map(ToString::to_string),
                ..shape
            },
            Reason::BehindOthers { ahead } => ExplainReason { ahead: Some(*ahead), ..shape },
            Reason::LimitReached { running, limit } => {
                ExplainReason { running: Some(*running), limit: Some(*limit), ..shape }
            }
            Reason::CancelRequested => shape,
            Reason::Running { worker, since, lease_expires_at } => ExplainReason {
                worker_id: Some(worker.to_string()),
                since: Some(Rfc3339(*since)),
                lease_expires_at: Some(Rfc3339(*lease_expires_at)),
                ..shape
            },
            Reason::Ended { status, at } => {
                ExplainReason { status: Some(status.to_string()), at: Some(Rfc3339(*at)), ..shape }
            }
        }
    }
}
