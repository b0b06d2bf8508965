//! Nodes: the processes that serve one store.

use crate::time::Moment;
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
    pub started_at: Moment,
    /// What it does now.
    pub state: NodeState,
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
