//! New jobs and nothing else: one statement, one journey.
//!
//! Whoever hands jobs over has nothing to lock, and nothing to read but the time and a place for the announcement. Both are
//! known before: the time from when it was last read, the place from a small stock, because what a new job announces comes
//! before all that it will. The statement makes sure that the time is near and that nothing was set since, or does nothing.
//! What nobody answered for is handed over once more, by the long way, which finds it if it is there: each job has an id of its
//! own, so it is made once.

use super::{
    Inner,
    batch_plan::BatchPlan,
    commit::{ASKED_APART, ASKED_MAX},
    error::TransactionError,
    locked,
    pool::{Pool, PooledConnection},
    save,
    settings_cache::SettingsCache,
    sql,
    transaction::{BLOCK, Transaction},
    workers::WorkersNotification,
};
use crate::{
    node::Notification,
    store::{Reply, Request},
    unit_of_work::carry_out,
};
use engine::Timestamp;
use std::{
    collections::BTreeSet,
    pin::pin,
    sync::{Arc, MutexGuard},
};

/// Places for announcements of new jobs, and so for their numbers: of two jobs of a millisecond the one that came later is to
/// have the later one.
#[derive(Default)]
pub(super) struct Places {
    pub(super) kept: BTreeSet<i64>,
    /// The last that was used, and for which time.
    used: i64,
    used_at: Timestamp,
    /// How many connections had been made when the first of these was asked for.
    made: u64,
}

/// As many are kept as batches are likely to be under way at once.
const KEPT_MAX: usize = 8;

impl Places {
    fn next(&mut self, now: Timestamp) -> Option<i64> {
        let after = if now > self.used_at { i64::MIN } else { self.used };
        let place = *self.kept.range(after..).next()?;
        self.kept.remove(&place);
        self.pass(place, now);
        Some(place)
    }

    /// Keeps one that nobody has used.
    pub(super) fn keep(&mut self, place: i64) {
        if self.kept.len() < KEPT_MAX {
            self.kept.insert(place);
        }
    }

    /// Says that one is used.
    pub(super) fn pass(&mut self, place: i64, now: Timestamp) {
        self.used = if now > self.used_at { place } else { self.used.max(place) };
        self.used_at = self.used_at.max(now);
    }

    /// Forgets all, if connections were made since: another server may give the same places to others.
    fn as_of(&mut self, made: u64) -> &mut Self {
        if self.made != made {
            *self = Places { made, ..Places::default() };
        }
        self
    }
}

/// What was sent and not answered for.
#[derive(Debug)]
pub(super) struct Unacknowledged {
    trouble: TransactionError,
    /// The numbers that the jobs have, if they were written.
    numbers: Vec<i64>,
    /// What is answered then.
    replies: Vec<Reply>,
}

impl BatchPlan<'_> {
    /// Whether it is only about new jobs, of which nothing has to be looked up.
    fn only_hands_over(&self, known: &SettingsCache) -> bool {
        let is_plain = |(_, request): &(usize, &Request)| matches!(request, Request::Submit(_));
        let is_free = |new: &&engine::NewJob| {
            new.key.is_none() && known.records.policy(&new.job_type).max_queued.is_none()
        };
        !self.pessimistic
            && !self.from_inbox
            && self.new.len() <= BLOCK
            && self.requests.iter().all(is_plain)
            && self.new.iter().all(is_free)
    }
}

impl Inner {
    /// The time and the place that a batch needs to be written at once, if they can be known.
    pub(super) fn foresee(
        &self,
        db: &PooledConnection,
        plan: &BatchPlan<'_>,
        known: &SettingsCache,
    ) -> Option<(Timestamp, i64)> {
        // Behind a pooler a statement needs its settings, and so a transaction around it.
        if !db.is_own() || !plan.only_hands_over(known) {
            return None;
        }
        let now = self.foreseen_time()?;
        if self.is_pulse_old(now) {
            return None;
        }
        Some((now, self.places().next(now)?))
    }

    /// How many places a batch that goes the long way is to bring along for those that follow.
    pub(super) fn places_wanted(
        &self,
        db: &PooledConnection,
        plan: &BatchPlan<'_>,
        known: &SettingsCache,
    ) -> usize {
        if !db.is_own() || !plan.only_hands_over(known) {
            return 0;
        }
        let kept = self.places().kept.len();
        if kept < KEPT_MAX / 2 { KEPT_MAX - kept } else { 0 }
    }

    pub(super) fn places(&self) -> MutexGuard<'_, Places> {
        let mut places = locked(&self.places);
        places.as_of(self.writers.made());
        places
    }

    pub(super) async fn fast_submit(
        &self,
        db: &mut PooledConnection,
        plan: &BatchPlan<'_>,
        (known, (now, place)): (Arc<SettingsCache>, (Timestamp, i64)),
        notification: &Notification,
    ) -> Result<Vec<Reply>, TransactionError> {
        let settings = known.version;
        let mut transaction = Transaction::new(self, (now, 0), known, vec![place]);
        let mut replies = Vec::with_capacity(plan.requests.len());
        for (_, request) in &plan.requests {
            replies.push(carry_out(&mut transaction, request)?);
        }
        db.opened();
        let sent = {
            let sending = pin!(save::fast_submit(db, &transaction.pending, (now, settings)));
            self.with_word(db, notification, sending).await
        };
        let sent = match sent {
            Err(trouble) if trouble.is_silence() => {
                let numbers = transaction.pending.new.iter().map(|new| new.stored.no).collect();
                return Err(TransactionError::Unacknowledged(Box::new(Unacknowledged {
                    trouble,
                    numbers,
                    replies,
                })));
            }
            sent => sent,
        };
        db.closed();
        self.places().keep(sent?);
        self.committed(&transaction, None, WorkersNotification::default());
        Ok(replies)
    }

    /// Finds out whether what nobody answered for was written, and hands it over again if not. Whatever else goes wrong now, the
    /// first time may have been right.
    pub(super) async fn hand_over_again(
        &self,
        writers: &Arc<Pool>,
        (batch, notification): (&[Request], &Notification),
        unheard: Unacknowledged,
    ) -> Result<Vec<Reply>, TransactionError> {
        let Unacknowledged { mut trouble, numbers, replies } = unheard;
        self.lose();
        for _ in 0..ASKED_MAX {
            // One that has run and was erased meanwhile would not be found by its id.
            if self.are_erased(&numbers).await.unwrap_or(false) {
                return Ok(replies);
            }
            match self.execute_at_length(writers, (batch, notification), true).await {
                Ok(replies) => return Ok(replies),
                Err(again) if again.is_silence() => trouble = again,
                Err(again) => return Err(again.unknown()),
            }
            tokio::time::sleep(ASKED_APART).await;
        }
        Err(trouble.unknown())
    }

    /// Whether some of these jobs were erased. That is known for as long as their announcements are there.
    async fn are_erased(&self, numbers: &[i64]) -> Result<bool, TransactionError> {
        let db = self.readers.lend().await?;
        Ok(!db.rows(sql::ERASED_AMONG, &[&numbers]).await?.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::Places;
    use engine::Timestamp;

    #[test]
    fn of_one_millisecond_the_later_place_is_used_later() {
        let [now, later] = [1, 2].map(Timestamp::from_unix_ms);
        let mut places = Places::default();
        [30, 10, 20, 40].into_iter().for_each(|place| places.keep(place));
        assert_eq!(places.next(now), Some(10));
        places.pass(25, now);
        assert_eq!(places.next(now), Some(30), "20 is before 25");
        assert_eq!(places.next(later), Some(20));
        assert_eq!(places.next(later), Some(40));
        assert_eq!(places.next(later), None);
    }

    #[test]
    fn places_of_another_server_are_forgotten() {
        let mut places = Places::default();
        places.as_of(3).keep(10);
        assert_eq!(places.as_of(4).next(Timestamp::from_unix_ms(1)), None);
    }
}
