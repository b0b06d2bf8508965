//! One node among those that share a store: who it is, and what it learned when it last gave a sign of life.

use engine::{JobId, Timestamp};
use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, Ordering},
};
use store::{Clock, ClusterView, NodeInfo, NodeStatus, RandomSource};

pub(crate) struct Membership {
    pub(crate) id: String,
    pub(crate) started_at: Timestamp,
    draining: AtomicBool,
    /// What the store said last; nothing until it has said something.
    told: Mutex<Option<ClusterView>>,
}

impl Membership {
    pub(crate) fn new(clock: &dyn Clock, random: &dyn RandomSource) -> Self {
        let started_at = clock.read().wall;
        Membership {
            // Made like the id of a job: nobody else has it, and it tells when the node began.
            id: JobId::new(started_at, random.entropy()).to_string(),
            started_at,
            draining: AtomicBool::new(false),
            told: Mutex::default(),
        }
    }

    pub(crate) fn info(&self) -> NodeInfo {
        NodeInfo {
            id: self.id.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at: self.started_at,
            draining: self.is_draining(),
        }
    }

    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::SeqCst)
    }

    pub(crate) fn note(&self, told: ClusterView) {
        *self.told() = Some(told);
    }

    /// The store did not hear us: whoever is not heard does not lead.
    pub(crate) fn unheard(&self) {
        let mut told = self.told();
        let Some(told) = &mut *told else { return };
        told.leads = false;
        told.nodes.iter_mut().filter(|seen| seen.info.id == self.id).for_each(|own| {
            own.leads = false;
        });
    }

    /// Everybody who serves the store, oldest first, as far as we heard. Whoever said that it would go and is
    /// silent has gone, and is not missed.
    pub(crate) fn nodes(&self) -> Vec<NodeStatus> {
        let told = self.told().clone();
        let Some(ClusterView { mut nodes, .. }) = told else {
            let seen_at = self.started_at;
            return vec![NodeStatus { info: self.info(), seen_at, live: true, leads: false }];
        };
        nodes.retain(|seen| seen.live || !seen.info.draining);
        // The store may not know yet that we end.
        nodes.iter_mut().filter(|seen| seen.info.id == self.id).for_each(|own| {
            own.info = self.info();
        });
        nodes
    }

    fn told(&self) -> MutexGuard<'_, Option<ClusterView>> {
        self.told.lock().expect("nothing panics with what was told in hand")
    }
}

/// Whether another node than `id` may want to hear what this one does.
pub(crate) fn has_company(told: &ClusterView, id: &str) -> bool {
    told.nodes.iter().any(|seen| seen.live && seen.info.id != id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::{ManualClock, SeededRandom};

    fn membership() -> Membership {
        let clock = ManualClock::at(Timestamp::from_unix_ms(1_800_000_000_000));
        Membership::new(&clock, &SeededRandom::new(1))
    }

    fn seen(info: NodeInfo, live: bool, leads: bool) -> NodeStatus {
        NodeStatus { info, seen_at: Timestamp::from_unix_ms(1_800_000_000_007), live, leads }
    }

    #[test]
    fn until_it_was_heard_a_node_knows_itself() {
        let membership = membership();
        let [own] = &membership.nodes()[..] else { panic!("one node") };
        assert!(own.info == membership.info() && own.live && !own.leads);
    }

    #[test]
    fn whoever_said_that_it_would_go_is_not_missed_when_it_is_silent() {
        let membership = membership();
        let other = |id: &str, draining| NodeInfo { id: id.into(), draining, ..membership.info() };
        let nodes = vec![
            seen(membership.info(), true, true),
            seen(other("gone", true), false, false),
            seen(other("going", true), true, false),
            seen(other("lost", false), false, false),
        ];
        membership.note(ClusterView { leads: true, nodes });
        let ids = |nodes: Vec<NodeStatus>| nodes.into_iter().map(|seen| seen.info.id);
        let expected = [&membership.id, "going", "lost"].map(str::to_owned);
        assert_eq!(ids(membership.nodes()).collect::<Vec<_>>(), expected);
        membership.drain();
        assert!(membership.nodes()[0].info.draining, "told before the store knows");
    }

    #[test]
    fn whoever_is_not_heard_does_not_lead() {
        let membership = membership();
        let nodes = vec![seen(membership.info(), true, true)];
        membership.note(ClusterView { leads: true, nodes });
        assert!(membership.nodes()[0].leads);
        membership.unheard();
        assert!(!membership.nodes()[0].leads);
    }

    #[test]
    fn company_is_somebody_else_who_lives() {
        let membership = membership();
        let other = NodeInfo { id: "other".into(), ..membership.info() };
        let told = |live| ClusterView {
            leads: true,
            nodes: vec![seen(membership.info(), true, true), seen(other.clone(), live, false)],
        };
        assert!(has_company(&told(true), &membership.id));
        assert!(!has_company(&told(false), &membership.id));
    }
}
