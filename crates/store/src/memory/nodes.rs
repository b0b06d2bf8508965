//! The nodes that share the store, and which of them leads.

use super::tables::Tables;
use crate::node::{NODE_LOST_AFTER, NODES_KEPT, NodeInfo, NodeRole, NodeStatus, UnconfirmedNode};
use engine::{JobId, Timestamp};
use std::collections::BTreeMap;

/// A node that sent a heartbeat.
#[derive(Clone)]
pub(super) struct SeenNode {
    info: NodeInfo,
    seen_at: Timestamp,
    /// The version of the settings that it acts by.
    confirmed_version: u64,
}

impl Tables {
    /// Records a heartbeat, and returns the node's role from now on.
    pub(super) fn heartbeat_node(&mut self, info: &NodeInfo) -> NodeRole {
        let now = self.now();
        self.nodes.retain(|_, seen| seen.seen_at + NODES_KEPT > now);
        self.confirm_settings(info, 0);
        self.leadership = std::mem::take(&mut self.leadership).after(info, now);
        self.leadership.role_of(info, now)
    }

    /// Records a heartbeat, and up to which version the node acts by the settings.
    pub(super) fn confirm_settings(&mut self, info: &NodeInfo, version: u64) {
        let before = self.nodes.get(&info.id).map_or(0, |seen| seen.confirmed_version);
        let confirmed_version = before.max(version);
        let seen = SeenNode { info: info.clone(), seen_at: self.now(), confirmed_version };
        self.nodes.insert(info.id.clone(), seen);
    }

    pub(super) fn unconfirmed_nodes(&self, version: u64) -> Vec<UnconfirmedNode> {
        let behind = self.nodes.values().filter(|seen| seen.confirmed_version < version);
        let unconfirmed = behind.map(|seen| UnconfirmedNode {
            id: seen.info.id.clone(),
            live: seen.seen_at + NODE_LOST_AFTER > self.now(),
        });
        unconfirmed.collect()
    }

    /// Whether a handle of this role may do the leader's work.
    pub(super) fn may_maintain(&self, role: NodeRole) -> bool {
        match role {
            NodeRole::Tool => true,
            NodeRole::Follows => false,
            NodeRole::Leads { fence } => self.leadership.is_in_force(fence, self.now()),
        }
    }

    /// All nodes that were seen lately, oldest first.
    pub(super) fn nodes(&self) -> Vec<NodeStatus> {
        let now = self.now();
        let seen = self.nodes.values();
        let seen = seen.map(|seen| self.leadership.status_of(seen.info.clone(), seen.seen_at, now));
        let mut nodes: Vec<NodeStatus> = seen.collect();
        nodes.sort_by(|a, b| (a.info.started_at, &a.info.id).cmp(&(b.info.started_at, &b.info.id)));
        nodes
    }

    pub(super) fn versions(&self, ids: &[JobId]) -> BTreeMap<JobId, u64> {
        ids.iter().filter_map(|id| Some((*id, self.jobs.get(id)?.version))).collect()
    }
}
