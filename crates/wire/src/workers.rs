//! Workers: who takes jobs, and whether they are still there.

use crate::time::Rfc3339;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Worker)]
pub struct WorkerShape {
    /// Its name.
    pub worker_id: String,
    /// The machine it says it runs on.
    pub host: Option<String>,
    /// The types it last asked for.
    pub job_types: Vec<String>,
    /// Jobs it holds.
    pub running: u64,
    /// When it last claimed or sent a heartbeat.
    pub last_seen_at: Rfc3339,
    /// Whether it is believed to be there.
    pub state: WorkerState,
}

/// Whether a worker is believed to be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum WorkerState {
    /// It gave a sign of life lately.
    Live,
    /// It fell silent.
    Lost,
}

impl WorkerState {
    /// The word for what `engine::is_live` found.
    pub fn of(is_live: bool) -> Self {
        if is_live { WorkerState::Live } else { WorkerState::Lost }
    }
}
