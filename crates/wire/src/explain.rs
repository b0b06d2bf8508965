//! Explain: why a job is not running.

use crate::{queues::QueuePause, time::Rfc3339};
use engine::{Reason, Status};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Every code that a reason may have, as the contract lists them.
pub const REASON_CODES: [&str; 10] = [
    "NO_LIVE_WORKER",
    "NOT_DUE",
    "RETRY_WAIT",
    "QUEUE_PAUSED",
    "BEHIND_OTHERS",
    "LIMIT_REACHED",
    "WAITING_FOR_CHILDREN",
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
    pub live_children: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
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
        let mut shape = ExplainReason {
            code: reason.code().into(),
            detail: reason.detail(),
            ..ExplainReason::default()
        };
        match reason {
            Reason::NoLiveWorker { job_type } => shape.job_type = Some(job_type.to_string()),
            Reason::QueuePaused { pause } => {
                let QueuePause { tenant, by, by_name, reason, at } = pause.into();
                shape.job_type = Some(pause.job_type.to_string());
                (shape.tenant, shape.reason, shape.since) = (Some(tenant), reason, Some(at));
                (shape.by, shape.by_name) = (by, by_name);
            }
            Reason::NotDue { run_at } => shape.run_at = Some(Rfc3339(*run_at)),
            Reason::RetryWait { run_at, attempt, error_code } => {
                (shape.run_at, shape.attempt) = (Some(Rfc3339(*run_at)), Some(*attempt));
                shape.error_code = error_code.as_ref().map(ToString::to_string);
            }
            Reason::BehindOthers { ahead } => shape.ahead = Some(*ahead),
            Reason::LimitReached { running, limit } => {
                (shape.running, shape.limit) = (Some(*running), Some(*limit));
            }
            Reason::WaitingForChildren { live, since } => {
                (shape.live_children, shape.since) = (Some(*live), Some(Rfc3339(*since)));
            }
            Reason::CancelRequested => {}
            Reason::Running { worker, since, lease_expires_at } => {
                shape.worker_id = Some(worker.to_string());
                shape.since = Some(Rfc3339(*since));
                shape.lease_expires_at = Some(Rfc3339(*lease_expires_at));
            }
            Reason::Ended { status, at } => {
                (shape.status, shape.at) = (Some(status.to_string()), Some(Rfc3339(*at)));
            }
        }
        shape
    }
}
