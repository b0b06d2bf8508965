//! The processes that share a store: who there is, which of them leads, and what they tell each other.

use engine::{JobType, Timestamp};
use std::{collections::BTreeSet, time::Duration};

/// A node, as it describes itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeInfo {
    /// Its name, which no other process ever has.
    pub id: String,
    /// The version of Consign that it runs.
    pub version: String,
    /// When it began to serve, by its own clock.
    pub started_at: Timestamp,
    /// It was asked to stop and finishes what it has begun; it does not lead any more.
    pub draining: bool,
}

/// A node, as the store has seen it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeStatus {
    /// How it describes itself.
    pub info: NodeInfo,
    /// When it last gave a sign of life, by the store's clock.
    pub seen_at: Timestamp,
    /// Whether it is taken to be alive.
    pub live: bool,
    /// Whether it does the chores that one node does for all.
    pub leads: bool,
}

/// A node that has not confirmed a version of the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnconfirmedNode {
    /// Which.
    pub id: String,
    /// Whether it is taken to be alive. One that is not looks at the store before it acts by its
    /// settings.
    pub live: bool,
}

/// What a node learns when it gives a sign of life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterView {
    /// Whether it is to do the chores that one node does for all: sweep, number, tidy.
    pub leads: bool,
    /// Everybody who has been seen lately, itself included, oldest first.
    pub nodes: Vec<NodeStatus>,
}

/// A node should give a sign of life this often.
pub const NODE_HEARTBEAT_EVERY: Duration = Duration::from_secs(1);
/// A leader that was silent for so long is followed by another.
pub const LEADERSHIP_FOR: Duration = Duration::from_secs(4);
/// A node that was silent for so long is taken to be lost.
pub const NODE_LOST_AFTER: Duration = Duration::from_secs(10);
/// For so long after a look at the store a node may act by the settings that it has in memory.
/// Shorter than [`NODE_LOST_AFTER`], by more than two clocks drift apart in that time: a node that
/// the others take to be lost looks before it serves.
pub const SETTINGS_TRUSTED_FOR: Duration = Duration::from_secs(8);
/// A node that is gone is still shown for this long.
pub const NODES_KEPT: Duration = Duration::from_secs(3_600);

/// Who leads, as the store has it.
#[derive(Clone, Default)]
pub(crate) struct Lead {
    pub(crate) node: Option<String>,
    /// Grows with every change of the lead: how a leader of long ago is told from the one of now.
    pub(crate) fence: i64,
    pub(crate) until: Timestamp,
}

/// What a handle of the store may do as one of several nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum NodeRole {
    /// It never attended: a tool or a test, which does the chores that it is asked for.
    #[default]
    Visitor,
    /// It attended, and another node leads, or none.
    Follows,
    /// It led under this fence when it last attended.
    Leads { fence: i64 },
}

impl Lead {
    /// Who leads after a node has given a sign of life.
    pub(crate) fn after(self, info: &NodeInfo, now: Timestamp) -> Self {
        let vacant = self.leader(now).is_none();
        if !vacant && !self.is_led_by(&info.id, now) {
            return self;
        }
        if info.draining {
            return Lead { node: None, ..self };
        }
        let (node, fence) = (Some(info.id.clone()), self.fence + i64::from(vacant));
        Lead { node, fence, until: now + LEADERSHIP_FOR }
    }

    /// What a node may do from now on.
    pub(crate) fn role_of(&self, info: &NodeInfo, now: Timestamp) -> NodeRole {
        let leads = self.is_led_by(&info.id, now);
        if leads { NodeRole::Leads { fence: self.fence } } else { NodeRole::Follows }
    }

    /// Whether the one who leads under `fence` still does. A leader that was away for too long does not, whether or not it
    /// was followed.
    pub(crate) fn stands(&self, fence: i64, now: Timestamp) -> bool {
        self.fence == fence && self.leader(now).is_some()
    }

    /// A node that was seen, as others are to see it.
    pub(crate) fn sight(&self, info: NodeInfo, seen_at: Timestamp, now: Timestamp) -> NodeStatus {
        let live = seen_at + NODE_LOST_AFTER > now;
        NodeStatus { leads: self.is_led_by(&info.id, now), live, seen_at, info }
    }

    fn is_led_by(&self, id: &str, now: Timestamp) -> bool {
        self.leader(now) == Some(id)
    }

    fn leader(&self, now: Timestamp) -> Option<&str> {
        self.node.as_deref().filter(|_| self.until > now)
    }
}

/// What one node lets the others know. A hint: it may get lost, and it may be about nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notification {
    /// There may be work of these types.
    pub work: BTreeSet<JobType>,
    /// There may be work of any type.
    pub any_work: bool,
    /// Jobs have changed.
    pub touched: bool,
    /// A credential, a policy or a pause was set.
    pub settings: bool,
}

impl Notification {
    /// Nothing that anybody would have to know.
    pub fn is_empty(&self) -> bool {
        self.work.is_empty() && !self.any_work && !self.touched && !self.settings
    }

    /// Takes in what is told as well.
    pub fn add(&mut self, more: Notification) {
        self.work.extend(more.work);
        self.any_work |= more.any_work;
        self.touched |= more.touched;
        self.settings |= more.settings;
    }
}
