//! One node among those that share a store: its id, and what it learned with its last heartbeat.

use crate::system;
use engine::{JobId, Timestamp};
use std::sync::{
    Mutex, MutexGuard, OnceLock,
    atomic::{AtomicBool, Ordering},
};
use store::{Clock, ClusterView, NodeInfo, NodeStatus, RandomSource};

pub(crate) struct Membership {
    pub(crate) id: String,
    host: String,
    /// Unset while the node serves no HTTP.
    address: OnceLock<String>,
    pub(crate) started_at: Timestamp,
    draining: AtomicBool,
    /// The last answer of the store; `None` before the first.
    view: Mutex<Option<ClusterView>>,
}

/// A new id for a node. Made like a job id: it is unique, and it shows when the node began.
pub fn new_node_id(clock: &dyn Clock, random: &dyn RandomSource) -> String {
    JobId::new(clock.read().wall, random.entropy()).to_string()
}

impl Membership {
    pub(crate) fn new(id: String, started_at: Timestamp) -> Self {
        Membership {
            id,
            host: system::host_name(),
            address: OnceLock::new(),
            started_at,
            draining: AtomicBool::new(false),
            view: Mutex::default(),
        }
    }

    pub(crate) fn info(&self) -> NodeInfo {
        NodeInfo {
            id: self.id.clone(),
            host: self.host.clone(),
            pid: std::process::id(),
            address: self.address.get().cloned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at: self.started_at,
            draining: self.is_draining(),
        }
    }

    /// Notes where the node listens. The first address stays: a node has one listener for all
    /// routes.
    pub(crate) fn set_address(&self, address: String) {
        drop(self.address.set(address));
    }

    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::SeqCst)
    }

    pub(crate) fn set_view(&self, view: ClusterView) {
        *self.view() = Some(view);
    }

    /// Notes that a heartbeat failed: a node without one does not lead.
    pub(crate) fn note_failed_heartbeat(&self) {
        let mut view = self.view();
        let Some(view) = &mut *view else { return };
        view.leads = false;
        view.nodes.iter_mut().filter(|node| node.info.id == self.id).for_each(|this_node| {
            this_node.leads = false;
        });
    }

    /// All nodes that serve the store, oldest first, as of the last heartbeat. A node that drains
    /// and is silent has gone, and is left out.
    pub(crate) fn nodes(&self) -> Vec<NodeStatus> {
        let view = self.view().clone();
        let Some(ClusterView { mut nodes, .. }) = view else {
            let seen_at = self.started_at;
            return vec![NodeStatus { info: self.info(), seen_at, live: true, leads: false }];
        };
        nodes.retain(|node| node.live || !node.info.draining);
        // The store may not have recorded yet that this node drains, or where it listens.
        nodes.iter_mut().filter(|node| node.info.id == self.id).for_each(|this_node| {
            this_node.info = self.info();
        });
        nodes
    }

    fn view(&self) -> MutexGuard<'_, Option<ClusterView>> {
        self.view.lock().expect("no code panics while it holds the view of the cluster")
    }
}

/// Whether another node than `id` may want notifications from this one.
pub(crate) fn has_live_peers(view: &ClusterView, id: &str) -> bool {
    view.nodes.iter().any(|node| node.live && node.info.id != id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::{ManualClock, SeededRandom};

    fn membership() -> Membership {
        let clock = ManualClock::at(Timestamp::from_unix_ms(1_800_000_000_000));
        Membership::new(new_node_id(&clock, &SeededRandom::new(1)), clock.read().wall)
    }

    fn node_status(info: NodeInfo, live: bool, leads: bool) -> NodeStatus {
        NodeStatus { info, seen_at: Timestamp::from_unix_ms(1_800_000_000_007), live, leads }
    }

    #[test]
    fn a_node_lists_itself_before_its_first_heartbeat() {
        let membership = membership();
        let [this_node] = &membership.nodes()[..] else { panic!("one node") };
        assert!(this_node.info == membership.info() && this_node.live && !this_node.leads);
    }

    #[test]
    fn silent_nodes_that_drained_are_not_listed() {
        let membership = membership();
        let other = |id: &str, draining| NodeInfo { id: id.into(), draining, ..membership.info() };
        let nodes = vec![
            node_status(membership.info(), true, true),
            node_status(other("gone", true), false, false),
            node_status(other("going", true), true, false),
            node_status(other("lost", false), false, false),
        ];
        membership.set_view(ClusterView { leads: true, nodes });
        let ids = |nodes: Vec<NodeStatus>| nodes.into_iter().map(|node| node.info.id);
        let expected = [&membership.id, "going", "lost"].map(str::to_owned);
        assert_eq!(ids(membership.nodes()).collect::<Vec<_>>(), expected);
        membership.drain();
        assert!(membership.nodes()[0].info.draining, "shown before the store has recorded it");
    }

    #[test]
    fn a_node_does_not_lead_after_a_failed_heartbeat() {
        let membership = membership();
        let nodes = vec![node_status(membership.info(), true, true)];
        membership.set_view(ClusterView { leads: true, nodes });
        assert!(membership.nodes()[0].leads);
        membership.note_failed_heartbeat();
        assert!(!membership.nodes()[0].leads);
    }

    #[test]
    fn only_other_live_nodes_are_live_peers() {
        let membership = membership();
        let other = NodeInfo { id: "other".into(), ..membership.info() };
        let view = |live| ClusterView {
            leads: true,
            nodes: vec![
                node_status(membership.info(), true, true),
                node_status(other.clone(), live, false),
            ],
        };
        assert!(has_live_peers(&view(true), &membership.id));
        assert!(!has_live_peers(&view(false), &membership.id));
    }
}
