//! Leave: a worker that stops in order is gone at once.

use engine::{Refusal, WorkerId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A worker signs off.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
#[expect(missing_docs, reason = "the fields are the contract's own")]
pub struct LeaveRequest {
    #[schema(required)]
    pub worker_id: String,
}

/// It is gone.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LeaveAnswer {
    /// Who.
    pub worker_id: String,
}

impl LeaveRequest {
    /// Checks who it is.
    pub fn check(&self) -> Result<WorkerId, Refusal> {
        Ok(WorkerId::parse(&self.worker_id)?)
    }
}
