//! The processes that share a store: who there is, which of them leads, and what they tell each other.

use engine::{JobType, Timestamp};
use std::{collections::BTreeSet, time::Duration};

/// A node, as it describes itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeCard {
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
pub struct NodeSeen {
    /// How it describes itself.
    pub card: NodeCard,
    /// When it last gave a sign of life, by the store's clock.
    pub seen_at: Timestamp,
    /// Whether it is taken to be alive.
    pub live: bool,
    /// Whether it does the chores that one node does for all.
    pub leads: bool,
}

/// What a node learns when it gives a sign of life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attendance {
    /// Whether it is to do the chores that one node does for all: sweep, number, tidy.
    pub leads: bool,
    /// Everybody who has been seen lately, itself included, oldest first.
    pub nodes: Vec<NodeSeen>,
}

/// A node should give a sign of life this often.
pub const ATTEND_EVERY: Duration = Duration::from_secs(1);
/// A leader that was silent for so long is followed by another.
pub const LEADS_FOR: Duration = Duration::from_secs(4);
/// A node that was silent for so long is taken to be lost.
pub const NODE_LOST_AFTER: Duration = Duration::from_secs(10);
/// A node that is gone is still shown for this long.
pub const NODES_KEPT: Duration = Duration::from_secs(3_600);

/// What one node lets the others know. A hint: it may get lost, and it may be about nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// There may be work of these types.
    pub work: BTreeSet<JobType>,
    /// There may be work of any type.
    pub any_work: bool,
    /// Jobs have changed.
    pub touched: bool,
}

impl News {
    /// Nothing that anybody would have to know.
    pub fn is_empty(&self) -> bool {
        self.work.is_empty() && !self.any_work && !self.touched
    }

    /// Takes in what is told as well.
    pub fn add(&mut self, more: News) {
        self.work.extend(more.work);
        self.any_work |= more.any_work;
        self.touched |= more.touched;
    }
}
