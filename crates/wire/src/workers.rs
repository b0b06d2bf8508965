//! Workers: which ones claim jobs, and whether they are alive.

use crate::time::Rfc3339;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Worker)]
pub struct WorkerStatus {
    /// Its id.
    pub worker_id: String,
    /// The machine, as the worker names it.
    pub host: Option<String>,
    /// The types it last asked for.
    pub job_types: Vec<String>,
    /// Jobs it holds.
    pub running: u64,
    /// When it last claimed or sent a heartbeat.
    pub last_seen_at: Rfc3339,
    /// Whether it counts as alive.
    pub state: WorkerState,
}

/// Whether a worker counts as alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum WorkerState {
    /// It claimed or sent a heartbeat lately.
    Live,
    /// Its claims and heartbeats stopped.
    Lost,
}

impl WorkerState {
    /// The contract's name for the answer of `engine::is_live`.
    pub fn of(is_live: bool) -> Self {
        if is_live { WorkerState::Live } else { WorkerState::Lost }
    }
}
