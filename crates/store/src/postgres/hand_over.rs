//! New jobs and nothing else: one statement, one journey.
//!
//! Whoever hands jobs over has nothing to lock, and nothing to read but the time and a place for the announcement. Both are
//! known before: the time from when it was last read, the place from a small stock, because what a new job announces comes
//! before all that it will. The statement makes sure that the time is near and that nothing was set since, or does nothing.
//! And as each job has an id of its own, what nobody answered for is handed over once more, by the long way, which finds it if
//! it is there.

use super::{
    Inner,
    commit::{ASKED_APART, ASKED_MAX},
    desk::{BLOCK, Desk},
    error::Trouble,
    known::Known,
    plan::Plan,
    pool::{Lent, Pool},
    save,
};
use crate::{
    node::News,
    store::{Reply, Request},
};
use engine::Timestamp;
use std::{
    collections::BTreeSet,
    pin::pin,
    sync::{Arc, MutexGuard},
};

/// Places for announcements of new jobs, and so for their numbers: used in order, so that of two jobs of a millisecond the one
/// that came later is the later one.
#[derive(Default)]
pub(super) struct Places {
    pub(super) kept: BTreeSet<i64>,
    /// The last that was used.
    used: i64,
}

/// As many are kept as batches are likely to be under way at once.
const KEPT_MAX: usize = 8;

impl Places {
    fn next(&mut self) -> Option<i64> {
        let place = self.kept.pop_first()?;
        self.used = place;
        Some(place)
    }

    /// Keeps one that nobody has used.
    fn keep(&mut self, place: i64) {
        if place > self.used && self.kept.len() < KEPT_MAX {
            self.kept.insert(place);
        }
    }

    /// Another is used, and those before it never will be.
    fn pass(&mut self, place: i64) {
        self.used = self.used.max(place);
        self.kept = self.kept.split_off(&self.used);
    }
}

/// What a transaction would read, known before.
pub(super) struct Foreseen {
    now: Timestamp,
    place: i64,
}

impl Plan<'_> {
    /// Whether it is only about new jobs, of which nothing has to be looked up.
    fn only_hands_over(&self, known: &Known) -> bool {
        let is_plain = |(_, request): &(usize, &Request)| matches!(request, Request::Submit(_));
        let is_free = |new: &&engine::NewJob| {
            new.key.is_none() && known.policy(&new.job_type).max_queued.is_none()
        };
        !self.careful
            && !self.taking_in
            && self.new.len() <= BLOCK
            && self.requests.iter().all(is_plain)
            && self.new.iter().all(is_free)
    }
}

impl Inner {
    /// What a batch needs to be written at once, if that can be known.
    pub(super) fn foresee(&self, db: &Lent, plan: &Plan<'_>, known: &Known) -> Option<Foreseen> {
        // Behind a pooler a statement needs its settings, and so a transaction around it.
        if !db.is_own() || !plan.only_hands_over(known) {
            return None;
        }
        let now = self.foreseen_time()?;
        if self.is_pulse_old(now) {
            return None;
        }
        Some(Foreseen { now, place: self.places().next()? })
    }

    /// How many places a batch that goes the long way is to bring along for those that follow.
    pub(super) fn spare_places(&self, plan: &Plan<'_>, known: &Known) -> usize {
        usize::from(plan.only_hands_over(known))
    }

    /// New jobs went the long way, by the first of these places and `more` behind it. The rest is for others.
    pub(super) fn note_places(&self, places: &mut Vec<i64>, more: usize) {
        let mut kept = self.places();
        let spare: Vec<i64> = places.drain(1 + more..).collect();
        places.last().iter().for_each(|place| kept.pass(**place));
        spare.iter().for_each(|place| kept.keep(*place));
    }

    pub(super) fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().expect(super::UNPOISONED)
    }

    /// Another server may give the same places to others.
    pub(super) fn forget_places(&self) {
        *self.places() = Places::default();
    }

    pub(super) async fn hand_over(
        &self,
        db: &mut Lent,
        plan: &Plan<'_>,
        (known, foreseen): (Arc<Known>, Foreseen),
        news: &News,
    ) -> Result<Vec<Reply>, Trouble> {
        let Foreseen { now, place } = foreseen;
        let settings = known.version;
        let mut desk = Desk::new((now, 0), known, self.dice.clone(), place, vec![place]);
        let mut replies = Vec::with_capacity(plan.requests.len());
        for (_, request) in &plan.requests {
            if let Request::Submit(jobs) = request {
                replies.push(desk.submit(jobs)?);
            }
        }
        db.opened();
        let sent = {
            let sending = pin!(save::hand_over(db, &desk.pending, (now, settings)));
            self.with_word(db, news, sending).await
        };
        let (now, place) = match sent {
            Err(trouble) if trouble.is_silence() => {
                return Err(Trouble::Unheard(Box::new(trouble)));
            }
            sent => {
                db.closed();
                sent?
            }
        };
        self.tick(now);
        self.places().keep(place);
        self.committed(&desk, None, Vec::new(), (Vec::new(), Vec::new()));
        Ok(replies)
    }

    /// Hands over again what nobody answered for. Whatever else goes wrong now, the first time may have been right.
    pub(super) async fn hand_over_again(
        &self,
        writers: &Arc<Pool>,
        (batch, news): (&[Request], &News),
        mut trouble: Trouble,
    ) -> Result<Vec<Reply>, Trouble> {
        self.lose();
        for _ in 0..ASKED_MAX {
            match self.execute_at_length(writers, (batch, news), true).await {
                Ok(replies) => return Ok(replies),
                Err(again) if again.is_silence() => trouble = again,
                Err(again) => return Err(again.unknown()),
            }
            tokio::time::sleep(ASKED_APART).await;
        }
        Err(trouble.unknown())
    }
}

#[cfg(test)]
mod tests {
    use super::Places;

    #[test]
    fn places_are_used_in_order_and_never_behind_another() {
        let mut places = Places::default();
        [30, 10, 20].into_iter().for_each(|place| places.keep(place));
        assert_eq!(places.next(), Some(10));
        places.keep(5);
        places.pass(25);
        assert_eq!(places.next(), Some(30), "20 was passed by, and 5 came too late");
        assert_eq!(places.next(), None);
    }
}
