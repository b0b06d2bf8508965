//! Who shares the store, and which of them leads.

use super::tables::Tables;
use crate::node::{LEADS_FOR, NODE_LOST_AFTER, NODES_KEPT, NodeCard, NodeSeen};
use engine::{JobId, Timestamp};
use std::collections::BTreeMap;

/// What a handle of the store may do as one of several nodes.
#[derive(Clone, Copy, Default)]
pub(super) enum Post {
    /// It never attended: a tool or a test, which does the chores that it is asked for.
    #[default]
    Stranger,
    /// It attended, and another node leads, or none.
    Follows,
    /// It led under this fence when it last attended.
    Leads(u64),
}

/// The one who leads.
#[derive(Clone)]
pub(super) struct Lead {
    node: String,
    /// Grows with every change of the lead: how a leader of long ago is told from the one of now.
    fence: u64,
    until: Timestamp,
}

/// A node that was seen.
#[derive(Clone)]
pub(super) struct Sighting {
    card: NodeCard,
    seen_at: Timestamp,
}

impl Tables {
    /// Notes a sign of life, and says what the node is from now on.
    pub(super) fn attend(&mut self, card: &NodeCard) -> Post {
        let now = self.now();
        self.nodes.retain(|_, seen| seen.seen_at + NODES_KEPT > now);
        self.nodes.insert(card.id.clone(), Sighting { card: card.clone(), seen_at: now });
        let lead = self.lead.take().filter(|lead| lead.until > now);
        let own = lead.as_ref().is_some_and(|lead| lead.node == card.id);
        match lead {
            Some(lead) if !own => self.lead = Some(lead),
            Some(_) | None if card.draining => {}
            Some(lead) => self.lead = Some(Lead { until: now + LEADS_FOR, ..lead }),
            None => {
                self.fences += 1;
                let (node, fence) = (card.id.clone(), self.fences);
                self.lead = Some(Lead { node, fence, until: now + LEADS_FOR });
            }
        }
        let leads = self.lead.as_ref().filter(|lead| lead.node == card.id);
        leads.map_or(Post::Follows, |lead| Post::Leads(lead.fence))
    }

    /// Whether somebody of this post may do what one node does for all. A leader that was away for too long may
    /// not, whether or not it was followed.
    pub(super) fn may_do_chores(&self, post: Post) -> bool {
        match post {
            Post::Stranger => true,
            Post::Follows => false,
            Post::Leads(fence) => self.leader().is_some_and(|lead| lead.fence == fence),
        }
    }

    /// Everybody who has been seen lately, oldest first.
    pub(super) fn nodes(&self) -> Vec<NodeSeen> {
        let now = self.now();
        let leader = self.leader().map(|lead| &lead.node);
        let mut nodes: Vec<NodeSeen> = (self.nodes.values())
            .map(|Sighting { card, seen_at }| NodeSeen {
                seen_at: *seen_at,
                live: *seen_at + NODE_LOST_AFTER > now,
                leads: leader == Some(&card.id),
                card: card.clone(),
            })
            .collect();
        nodes.sort_by(|a, b| (a.card.started_at, &a.card.id).cmp(&(b.card.started_at, &b.card.id)));
        nodes
    }

    pub(super) fn versions(&self, ids: &[JobId]) -> BTreeMap<JobId, u64> {
        ids.iter().filter_map(|id| Some((*id, self.jobs.get(id)?.version))).collect()
    }

    fn leader(&self) -> Option<&Lead> {
        self.lead.as_ref().filter(|lead| lead.until > self.now())
    }
}
