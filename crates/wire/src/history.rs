//! History: what happened to a job, one row per transition.

use crate::time::Rfc3339;
use engine::HistoryEntry;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One transition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the fields are the contract's own")]
pub struct Transition {
    pub seq: u64,
    pub at: Rfc3339,
    pub from: Option<String>,
    pub to: String,
    pub attempt: u32,
    pub worker_id: Option<String>,
    pub error_code: Option<String>,
    pub message: Option<String>,
}

impl From<&HistoryEntry> for Transition {
    fn from(entry: &HistoryEntry) -> Self {
        Transition {
            seq: entry.seq,
            at: entry.at.into(),
            from: entry.from.map(|status| status.to_string()),
            to: entry.to.to_string(),
            attempt: entry.attempt,
            worker_id: entry.worker.as_ref().map(ToString::to_string),
            error_code: entry.error_code.as_ref().map(ToString::to_string),
            message: entry.message.as_deref().map(Into::into),
        }
    }
}
