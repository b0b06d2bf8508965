//! One node among those that share a store: who it is, and what it learned when it last gave a sign of life.

use engine::{JobId, Timestamp};
use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, Ordering},
};
use store::{Attendance, Clock, Dice, NodeCard, NodeSeen};

pub(crate) struct Presence {
    pub(crate) id: String,
    pub(crate) started_at: Timestamp,
    draining: AtomicBool,
    /// What the store said last; nothing until it has said something.
    told: Mutex<Option<Attendance>>,
}

impl Presence {
    pub(crate) fn new(clock: &dyn Clock, dice: &dyn Dice) -> Self {
        let started_at = clock.read().wall;
        Presence {
            // Made like the id of a job: nobody else has it, and it tells when the node began.
            id: JobId::new(started_at, dice.roll()).to_string(),
            started_at,
            draining: AtomicBool::new(false),
            told: Mutex::default(),
        }
    }

    pub(crate) fn card(&self) -> NodeCard {
        NodeCard {
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

    pub(crate) fn note(&self, told: Attendance) {
        *self.told() = Some(told);
    }

    /// The store did not hear us: whoever is not heard does not lead.
    pub(crate) fn unheard(&self) {
        let mut told = self.told();
        let Some(told) = &mut *told else { return };
        told.leads = false;
        told.nodes.iter_mut().filter(|seen| seen.card.id == self.id).for_each(|own| {
            own.leads = false;
        });
    }

    /// Everybody who serves the store, oldest first, as far as we heard. Whoever said that it would go and is
    /// silent has gone, and is not missed.
    pub(crate) fn nodes(&self) -> Vec<NodeSeen> {
        let told = self.told().clone();
        let Some(Attendance { mut nodes, .. }) = told else {
            let seen_at = self.started_at;
            return vec![NodeSeen { card: self.card(), seen_at, live: true, leads: false }];
        };
        nodes.retain(|seen| seen.live || !seen.card.draining);
        // The store may not know yet that we end.
        nodes.iter_mut().filter(|seen| seen.card.id == self.id).for_each(|own| {
            own.card = self.card();
        });
        nodes
    }

    fn told(&self) -> MutexGuard<'_, Option<Attendance>> {
        self.told.lock().expect("nothing panics with what was told in hand")
    }
}

/// Whether another node than `id` may want to hear what this one does.
pub(crate) fn has_company(told: &Attendance, id: &str) -> bool {
    told.nodes.iter().any(|seen| seen.live && seen.card.id != id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::{HandClock, SeededDice};

    fn presence() -> Presence {
        let clock = HandClock::at(Timestamp::from_unix_ms(1_800_000_000_000));
        Presence::new(&clock, &SeededDice::new(1))
    }

    fn seen(card: NodeCard, live: bool, leads: bool) -> NodeSeen {
        NodeSeen { card, seen_at: Timestamp::from_unix_ms(1_800_000_000_007), live, leads }
    }

    #[test]
    fn until_it_was_heard_a_node_knows_itself() {
        let presence = presence();
        let [own] = &presence.nodes()[..] else { panic!("one node") };
        assert!(own.card == presence.card() && own.live && !own.leads);
    }

    #[test]
    fn whoever_said_that_it_would_go_is_not_missed_when_it_is_silent() {
        let presence = presence();
        let other = |id: &str, draining| NodeCard { id: id.into(), draining, ..presence.card() };
        let nodes = vec![
            seen(presence.card(), true, true),
            seen(other("gone", true), false, false),
            seen(other("going", true), true, false),
            seen(other("lost", false), false, false),
        ];
        presence.note(Attendance { leads: true, nodes });
        let ids = |nodes: Vec<NodeSeen>| nodes.into_iter().map(|seen| seen.card.id);
        let expected = [&presence.id, "going", "lost"].map(str::to_owned);
        assert_eq!(ids(presence.nodes()).collect::<Vec<_>>(), expected);
        presence.drain();
        assert!(presence.nodes()[0].card.draining, "told before the store knows");
    }

    #[test]
    fn whoever_is_not_heard_does_not_lead() {
        let presence = presence();
        let nodes = vec![seen(presence.card(), true, true)];
        presence.note(Attendance { leads: true, nodes });
        assert!(presence.nodes()[0].leads);
        presence.unheard();
        assert!(!presence.nodes()[0].leads);
    }

    #[test]
    fn company_is_somebody_else_who_lives() {
        let presence = presence();
        let other = NodeCard { id: "other".into(), ..presence.card() };
        let told = |live| Attendance {
            leads: true,
            nodes: vec![seen(presence.card(), true, true), seen(other.clone(), live, false)],
        };
        assert!(has_company(&told(true), &presence.id));
        assert!(!has_company(&told(false), &presence.id));
    }
}
