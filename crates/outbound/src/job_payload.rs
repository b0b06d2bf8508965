//! A job as the input of a ready-made handler.

use serde::Serialize;
use wire::{Json, PayloadVersion, Rfc3339};

/// One attempt at one job, for a program or a receiver that knows nothing of Consign. Its JSON is
/// what they get: the names are those of a claimed job, and absent fields are null. It contains no
/// lease, because the holder of the lease reports the result.
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
    pub payload_version: Option<PayloadVersion>,
    pub payload: Json,
}

impl JobPayload {
    /// The JSON that the program or receiver gets.
    pub(crate) fn json(&self) -> String {
        serde_json::to_string(self).expect("the shapes of the wire can always be written")
    }
}
