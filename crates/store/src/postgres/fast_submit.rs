//! Submits that contain only new jobs: one statement, one round trip.
//!
//! Such a batch has nothing to lock. It needs only the time and an outbox position for its events,
//! and both are predicted: the time from the last reading, the position from a small stock, because
//! a new job's first event precedes all its later ones. The statement fails if the time is not near
//! enough or settings have changed. If no answer comes, the batch goes through the full
//! transaction, which finds the jobs if they exist: each job has its own id, so it is created once.

use super::{
    Inner,
    batch_plan::BatchPlan,
    commit::{ASKED_APART, ASKED_MAX},
    error::{Result, TransactionError},
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
    unit_of_work::execute_request,
};
use engine::Timestamp;
use std::{
    collections::BTreeSet,
    pin::pin,
    sync::{Arc, MutexGuard},
};

/// Reserved outbox positions for the events of new jobs. Job numbers derive from them: of two jobs
/// of one millisecond, the later one must get the higher number.
#[derive(Default)]
pub(super) struct Places {
    pub(super) kept: BTreeSet<i64>,
    /// The position that was used last, and for which time.
    used: i64,
    used_at: Timestamp,
    /// How many connections had been made when the first of these was reserved.
    made: u64,
}

/// As many positions are kept as batches are likely to run at once.
const KEPT_MAX: usize = 8;

impl Places {
    fn next(&mut self, now: Timestamp) -> Option<i64> {
        let after = if now > self.used_at { i64::MIN } else { self.used };
        let place = *self.kept.range(after..).next()?;
        self.kept.remove(&place);
        self.pass(place, now);
        Some(place)
    }

    /// Keeps an unused position.
    pub(super) fn keep(&mut self, place: i64) {
        if self.kept.len() < KEPT_MAX {
            self.kept.insert(place);
        }
    }

    /// Records that a position was used.
    pub(super) fn pass(&mut self, place: i64, now: Timestamp) {
        self.used = if now > self.used_at { place } else { self.used.max(place) };
        self.used_at = self.used_at.max(now);
    }

    /// Forgets all positions if connections were made since: another server may give the same
    /// positions to other transactions.
    fn as_of(&mut self, made: u64) -> &mut Self {
        if self.made != made {
            *self = Places { made, ..Places::default() };
        }
        self
    }
}

/// A submit that was sent and got no answer.
#[derive(Debug)]
pub(super) struct Unacknowledged {
    trouble: TransactionError,
    /// The numbers of the jobs, if they were written.
    numbers: Vec<i64>,
    /// The replies, if they were written.
    replies: Vec<Reply>,
}

impl BatchPlan<'_> {
    /// Whether the batch contains only new jobs for which nothing has to be read.
    fn only_new_jobs(&self, known: &SettingsCache) -> bool {
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
    /// The time and the position with which a batch can be written at once, if both can be
    /// predicted.
    pub(super) fn predict(
        &self,
        db: &PooledConnection,
        plan: &BatchPlan<'_>,
        known: &SettingsCache,
    ) -> Option<(Timestamp, i64)> {
        // Behind a pooler, a statement needs its settings and so a transaction around it.
        if !db.is_own() || !plan.only_new_jobs(known) {
            return None;
        }
        let now = self.predicted_time()?;
        if self.is_liveness_old(now) {
            return None;
        }
        Some((now, self.places().next(now)?))
    }

    /// How many positions a full transaction reserves for the fast submits that follow.
    pub(super) fn places_wanted(
        &self,
        db: &PooledConnection,
        plan: &BatchPlan<'_>,
        known: &SettingsCache,
    ) -> usize {
        if !db.is_own() || !plan.only_new_jobs(known) {
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
    ) -> Result<Vec<Reply>> {
        let settings = known.version;
        let mut transaction = Transaction::new(self, (now, 0), known, vec![place]);
        let mut replies = Vec::with_capacity(plan.requests.len());
        for (_, request) in &plan.requests {
            replies.push(execute_request(&mut transaction, request)?);
        }
        db.opened();
        let sent = {
            let sending = pin!(save::fast_submit(db, &transaction.pending, (now, settings)));
            self.with_word(db, notification, sending).await
        };
        let sent = match sent {
            Err(trouble) if trouble.is_unanswered() => {
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

    /// Determines whether an unacknowledged submit was written, and submits it again if not. Any
    /// later failure still leaves the outcome unknown: the first attempt may have succeeded.
    pub(super) async fn resubmit(
        &self,
        writers: &Arc<Pool>,
        (batch, notification): (&[Request], &Notification),
        unacknowledged: Unacknowledged,
    ) -> Result<Vec<Reply>> {
        let Unacknowledged { mut trouble, numbers, replies } = unacknowledged;
        self.lose();
        for _ in 0..ASKED_MAX {
            // A job that has run and was erased meanwhile would not be found by its id.
            if self.are_erased(&numbers).await.unwrap_or(false) {
                return Ok(replies);
            }
            match self.execute_at_length(writers, (batch, notification), true).await {
                Ok(replies) => return Ok(replies),
                Err(again) if again.is_unanswered() => trouble = again,
                Err(again) => return Err(again.unknown()),
            }
            tokio::time::sleep(ASKED_APART).await;
        }
        Err(trouble.unknown())
    }

    /// Whether some of these jobs were erased. That is known for as long as their events are kept.
    async fn are_erased(&self, numbers: &[i64]) -> Result<bool> {
        let db = self.readers.acquire().await?;
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
