//! The processes that share a store: which nodes there are, which of them leads, and what they
//! notify each other of.

use engine::{JobType, Timestamp};
use std::{collections::BTreeSet, time::Duration};

/// A node, as it describes itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeInfo {
    /// Its name, unique among all processes for all time.
    pub id: String,
    /// The machine that it runs on.
    pub host: String,
    /// Its process on that machine.
    pub pid: u32,
    /// The address that it listens at; `None` for a node that serves no HTTP.
    pub address: Option<String>,
    /// The version of Consign that it runs.
    pub version: String,
    /// When it began to serve, by its own clock.
    pub started_at: Timestamp,
    /// It is shutting down: it finishes what it has begun and no longer leads.
    pub draining: bool,
}

/// A node, as the store has seen it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeStatus {
    /// How it describes itself.
    pub info: NodeInfo,
    /// Its last heartbeat, by the store's clock.
    pub seen_at: Timestamp,
    /// Whether the store takes it to be alive.
    pub live: bool,
    /// Whether it is the leader, which does maintenance for all nodes.
    pub leads: bool,
}

/// A node that has not confirmed a version of the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnconfirmedNode {
    /// The name of the node.
    pub id: String,
    /// Whether the store takes it to be alive. A node that is not reads the store before it acts by
    /// its settings.
    pub live: bool,
}

/// The answer to a node's heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterView {
    /// Whether this node leads: sweeps, numbers events and prunes for all nodes.
    pub leads: bool,
    /// All nodes that the store has seen lately, itself included, oldest first.
    pub nodes: Vec<NodeStatus>,
}

/// How often a node should send a heartbeat.
pub const NODE_HEARTBEAT_EVERY: Duration = Duration::from_secs(1);
/// How long a leader may be silent before another node takes the leadership.
pub const LEADERSHIP_FOR: Duration = Duration::from_secs(4);
/// How long a node may be silent before the others take it to be lost.
pub const NODE_LOST_AFTER: Duration = Duration::from_secs(10);
/// How long after its last read of the store a node may act by its cached settings. Shorter than
/// [`NODE_LOST_AFTER`], by more than two clocks drift apart in that time: a node that the others
/// take to be lost reads the store before it serves.
pub const SETTINGS_TRUSTED_FOR: Duration = Duration::from_secs(8);
/// How long a node that is gone is still listed.
pub const NODES_KEPT: Duration = Duration::from_secs(3_600);

/// The leader, as the store records it.
#[derive(Clone, Default)]
pub(crate) struct Leadership {
    pub(crate) node: Option<String>,
    /// Grows with every change of leader, so that the store can tell a former leader from the
    /// present one.
    pub(crate) fence: i64,
    pub(crate) until: Timestamp,
}

/// The role of a store handle among several nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum NodeRole {
    /// It never sent a heartbeat: a tool or a test, which may do maintenance.
    #[default]
    Tool,
    /// It sent a heartbeat, and another node leads, or none.
    Follows,
    /// It led under this fence at its last heartbeat.
    Leads { fence: i64 },
}

impl Leadership {
    /// The leadership after a heartbeat of a node.
    pub(crate) fn after(self, info: &NodeInfo, now: Timestamp) -> Self {
        let vacant = self.leader(now).is_none();
        if !vacant && !self.is_led_by(&info.id, now) {
            return self;
        }
        if info.draining {
            return Leadership { node: None, ..self };
        }
        let (node, fence) = (Some(info.id.clone()), self.fence + i64::from(vacant));
        Leadership { node, fence, until: now + LEADERSHIP_FOR }
    }

    /// The role of a node from now on.
    pub(crate) fn role_of(&self, info: &NodeInfo, now: Timestamp) -> NodeRole {
        let leads = self.is_led_by(&info.id, now);
        if leads { NodeRole::Leads { fence: self.fence } } else { NodeRole::Follows }
    }

    /// Whether the leader with `fence` still leads. A leader that was silent for too long does not,
    /// even if no other node took the leadership.
    pub(crate) fn is_in_force(&self, fence: i64, now: Timestamp) -> bool {
        self.fence == fence && self.leader(now).is_some()
    }

    /// A node's status, as listings show it.
    pub(crate) fn status_of(
        &self,
        info: NodeInfo,
        seen_at: Timestamp,
        now: Timestamp,
    ) -> NodeStatus {
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

/// A message from one node to the others. It is a hint: it may get lost, and it may turn out to be
/// about nothing.
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
    /// Whether it is about nothing, so that no node needs it.
    pub fn is_empty(&self) -> bool {
        self.work.is_empty() && !self.any_work && !self.touched && !self.settings
    }

    /// Merges another notification into this one.
    pub fn add(&mut self, more: Notification) {
        self.work.extend(more.work);
        self.any_work |= more.any_work;
        self.touched |= more.touched;
        self.settings |= more.settings;
    }
}
