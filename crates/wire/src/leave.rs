//! Leave: a worker that shuts down in order counts as gone at once.

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

/// The worker is gone.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LeaveAnswer {
    /// The worker.
    pub worker_id: String,
}

impl LeaveRequest {
    /// Checks the worker's name.
    pub fn check(&self) -> Result<WorkerId, Refusal> {
        Ok(WorkerId::parse(&self.worker_id)?)
    }
}
