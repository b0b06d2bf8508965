//! Who shares the store, and which of them leads.

use super::tables::Tables;
use crate::node::{NODE_LOST_AFTER, NODES_KEPT, NodeCard, NodeSeen, Part, UnconfirmedNode};
use engine::{JobId, Timestamp};
use std::collections::BTreeMap;

/// A node that was seen.
#[derive(Clone)]
pub(super) struct Sighting {
    card: NodeCard,
    seen_at: Timestamp,
    /// The version of the settings that it acts by.
    confirmed: u64,
}

impl Tables {
    /// Notes a sign of life, and says what the node is from now on.
    pub(super) fn attend(&mut self, card: &NodeCard) -> Part {
        let now = self.now();
        self.nodes.retain(|_, seen| seen.seen_at + NODES_KEPT > now);
        self.confirm_settings(card, 0);
        self.lead = std::mem::take(&mut self.lead).after(card, now);
        self.lead.part_of(card, now)
    }

    /// Notes a sign of life, and which settings the node acts by.
    pub(super) fn confirm_settings(&mut self, card: &NodeCard, version: u64) {
        let before = self.nodes.get(&card.id).map_or(0, |seen| seen.confirmed);
        let confirmed = before.max(version);
        let seen = Sighting { card: card.clone(), seen_at: self.now(), confirmed };
        self.nodes.insert(card.id.clone(), seen);
    }

    pub(super) fn unconfirmed_nodes(&self, version: u64) -> Vec<UnconfirmedNode> {
        let behind = self.nodes.values().filter(|seen| seen.confirmed < version);
        let described = behind.map(|seen| UnconfirmedNode {
            id: seen.card.id.clone(),
            live: seen.seen_at + NODE_LOST_AFTER > self.now(),
        });
        described.collect()
    }

    /// Whether somebody of this part may do what one node does for all.
    pub(super) fn may_do_chores(&self, part: Part) -> bool {
        match part {
            Part::Visitor => true,
            Part::Follows => false,
            Part::Leads { fence } => self.lead.stands(fence, self.now()),
        }
    }

    /// Everybody who has been seen lately, oldest first.
    pub(super) fn nodes(&self) -> Vec<NodeSeen> {
        let now = self.now();
        let seen = self.nodes.values();
        let seen = seen.map(|seen| self.lead.sight(seen.card.clone(), seen.seen_at, now));
        let mut nodes: Vec<NodeSeen> = seen.collect();
        nodes.sort_by(|a, b| (a.card.started_at, &a.card.id).cmp(&(b.card.started_at, &b.card.id)));
        nodes
    }

    pub(super) fn versions(&self, ids: &[JobId]) -> BTreeMap<JobId, u64> {
        ids.iter().filter_map(|id| Some((*id, self.jobs.get(id)?.version))).collect()
    }
}
