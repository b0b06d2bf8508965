//! Who shares the store, and which of them leads.

use super::tables::Tables;
use crate::node::{NODES_KEPT, NodeCard, NodeSeen, Part};
use engine::{JobId, Timestamp};
use std::collections::BTreeMap;

/// A node that was seen.
#[derive(Clone)]
pub(super) struct Sighting {
    card: NodeCard,
    seen_at: Timestamp,
}

impl Tables {
    /// Notes a sign of life, and says what the node is from now on.
    pub(super) fn attend(&mut self, card: &NodeCard) -> Part {
        let now = self.now();
        self.nodes.retain(|_, seen| seen.seen_at + NODES_KEPT > now);
        self.nodes.insert(card.id.clone(), Sighting { card: card.clone(), seen_at: now });
        self.lead = std::mem::take(&mut self.lead).after(card, now);
        self.lead.part_of(card, now)
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
