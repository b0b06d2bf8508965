//! A job as a ready-made handler gets it.

use serde::Serialize;
use wire::{Json, PayloadVersionShape, Rfc3339};

/// One attempt at one job, for a program or an address that knows nothing of us. As JSON, it is what they are handed:
/// the names are those of a claimed job, and what is absent is null. There is no lease in it: who holds it reports.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the fields are the contract's own")]
pub struct JobPayload {
    pub job_id: String,
    pub job_type: String,
    pub tenant: String,
    pub subject_id: Option<String>,
    pub correlation_id: String,
    pub attempt: u32,
    pub max_attempts: u32,
    pub redrive_count: u32,
    pub priority: u8,
    pub created_at: Rfc3339,
    pub parent_id: Option<String>,
    pub traceparent: Option<String>,
    pub payload_version: Option<PayloadVersionShape>,
    pub payload: Json,
}

impl JobPayload {
    /// What is handed over.
    pub(crate) fn json(&self) -> String {
        serde_json::to_string(self).expect("the shapes of the wire can always be written")
    }
}
