//! Nodes: the processes that serve one store.

use crate::time::Rfc3339;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Node)]
pub struct NodeStatus {
    /// Its id.
    pub node_id: String,
    /// The machine that it runs on. Only a credential for `*` sees it, and the next two.
    pub host: Option<String>,
    /// Its process on that machine.
    pub pid: Option<u32>,
    /// The address that it listens at.
    pub address: Option<String>,
    /// The version of Consign that it runs.
    pub version: String,
    /// When it began to serve.
    pub started_at: Rfc3339,
    /// When it last sent a heartbeat, by the store's clock.
    pub last_seen_at: Rfc3339,
    /// Its state.
    pub state: NodeState,
    /// Whether it is the leader, which sweeps, numbers events and prunes for all nodes.
    pub leader: bool,
}

/// The state of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum NodeState {
    /// It serves.
    Live,
    /// It was asked to stop and finishes its requests.
    Draining,
    /// Its heartbeats stopped.
    Lost,
}

impl NodeState {
    /// The state of a node, from its heartbeats and from what it announced.
    pub fn of(live: bool, draining: bool) -> Self {
        match (live, draining) {
            (false, _) => NodeState::Lost,
            (true, true) => NodeState::Draining,
            (true, false) => NodeState::Live,
        }
    }
}
