//! Queues: what waits, and who could take it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The queue of one job type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Queue)]
pub struct QueueShape {
    /// Whose queue it is.
    pub job_type: String,
    /// Jobs that wait, due or not.
    pub queued: u64,
    /// Jobs that wait and could start now.
    pub due: u64,
    /// How long the oldest due job has waited; none where no job is due.
    pub oldest_age_seconds: Option<u64>,
    /// Jobs that a worker holds.
    pub running: u64,
    /// Jobs that wait for a person.
    pub poisoned: u64,
    /// Whether somebody stopped it.
    pub paused: bool,
    /// Workers that are alive and claim this type.
    pub live_workers: u64,
}
