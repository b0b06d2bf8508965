//! Nodes: the processes that serve one store.

use crate::time::Rfc3339;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Node)]
pub struct NodeShape {
    /// Its name.
    pub node_id: String,
    /// The version of Consign that it runs.
    pub version: String,
    /// When it began to serve.
    pub started_at: Rfc3339,
    /// When it last gave a sign of life, by the store's clock.
    pub last_seen_at: Rfc3339,
    /// What it does now.
    pub state: NodeState,
    /// Whether it does what one node does for all: sweep, number announcements, tidy up.
    pub leader: bool,
}

/// What a node does now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum NodeState {
    /// It serves.
    Live,
    /// It was asked to stop and finishes what it has begun.
    Draining,
    /// It fell silent.
    Lost,
}

impl NodeState {
    /// The state of a node that is heard of or not, and that may have said that it ends.
    pub fn of(live: bool, draining: bool) -> Self {
        match (live, draining) {
            (false, _) => NodeState::Lost,
            (true, true) => NodeState::Draining,
            (true, false) => NodeState::Live,
        }
    }
}
