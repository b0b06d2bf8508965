//! Submits that contain only new jobs: one statement, one round trip.
//!
//! Such a batch has nothing to lock. It needs only the time and an outbox position for its events,
//! and the node has both in advance. It predicts the time from the last reading. It takes the
//! position from a small stock: an old position will do, because a new job's first event precedes
//! all its later ones. The statement fails if the time is not near enough or settings have changed.
//! If no answer comes, the batch goes through the full transaction, which finds the jobs if they
//! exist: each job has its own id, so it is created once.

use super::{
    Inner,
    batch_plan::BatchPlan,
    commit::{OUTCOME_QUERIES_MAX, OUTCOME_QUERY_EVERY},
    error::{Result, TransactionError},
    locked,
    pool::{Pool, PooledConnection},
    save,
    settings_cache::SettingsCache,
    sql,
    transaction::{JOBS_PER_EVENT_SEQ, Transaction},
    workers::WorkerUpdates,
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

/// A stock of reserved outbox positions for the events of new jobs. Job numbers derive from them:
/// of two jobs of one millisecond, the later one must get the higher number.
#[derive(Default)]
pub(super) struct EventSeqStock {
    pub(super) free: BTreeSet<i64>,
    /// The position that was used last, and the time that it was used for.
    last_used: i64,
    last_used_at: Timestamp,
    /// How many connections this node had made when the first of these was reserved.
    connections_made: u64,
}

/// The stock has at most as many positions as batches are likely to run at once.
const STOCK_MAX: usize = 8;

impl EventSeqStock {
    fn next(&mut self, now: Timestamp) -> Option<i64> {
        let after = if now > self.last_used_at { i64::MIN } else { self.last_used };
        let event_seq = *self.free.range(after..).next()?;
        self.free.remove(&event_seq);
        self.mark_used(event_seq, now);
        Some(event_seq)
    }

    /// Keeps an unused position.
    pub(super) fn keep(&mut self, event_seq: i64) {
        if self.free.len() < STOCK_MAX {
            self.free.insert(event_seq);
        }
    }

    /// Records that a position was used.
    pub(super) fn mark_used(&mut self, event_seq: i64, now: Timestamp) {
        self.last_used =
            if now > self.last_used_at { event_seq } else { self.last_used.max(event_seq) };
        self.last_used_at = self.last_used_at.max(now);
    }

    /// Forgets all positions if connections were made since: another server may give the same
    /// positions to other transactions.
    fn valid_for(&mut self, connections_made: u64) -> &mut Self {
        if self.connections_made != connections_made {
            *self = EventSeqStock { connections_made, ..EventSeqStock::default() };
        }
        self
    }
}

/// A submit that was sent and got no answer.
#[derive(Debug)]
pub(super) struct Unacknowledged {
    error: TransactionError,
    /// The numbers of the jobs, if they were written.
    numbers: Vec<i64>,
    /// The replies, if they were written.
    replies: Vec<Reply>,
}

impl BatchPlan<'_> {
    /// Whether the batch contains only new jobs for which nothing has to be read.
    fn has_only_new_jobs(&self, settings: &SettingsCache) -> bool {
        let is_plain = |(_, request): &(usize, &Request)| matches!(request, Request::Submit(_));
        let is_free = |new: &&engine::NewJob| {
            new.key.is_none() && settings.records.policy(&new.job_type).max_queued.is_none()
        };
        !self.pessimistic
            && !self.from_inbox
            && self.new_jobs.len() <= JOBS_PER_EVENT_SEQ
            && self.requests.iter().all(is_plain)
            && self.new_jobs.iter().all(is_free)
    }
}

impl Inner {
    /// The time and the position for a fast submit, if the batch allows one and both can be
    /// predicted.
    pub(super) fn predict(
        &self,
        db: &PooledConnection,
        plan: &BatchPlan<'_>,
        settings: &SettingsCache,
    ) -> Option<(Timestamp, i64)> {
        // Behind a pooler, a statement needs its settings and so a transaction around it.
        if !db.is_own() || !plan.has_only_new_jobs(settings) {
            return None;
        }
        let now = self.predicted_time()?;
        if self.is_liveness_due(now) {
            return None;
        }
        Some((now, self.event_seq_stock().next(now)?))
    }

    /// How many positions a full transaction reserves for the fast submits that follow.
    pub(super) fn event_seqs_to_reserve(
        &self,
        db: &PooledConnection,
        plan: &BatchPlan<'_>,
        settings: &SettingsCache,
    ) -> usize {
        if !db.is_own() || !plan.has_only_new_jobs(settings) {
            return 0;
        }
        let count = self.event_seq_stock().free.len();
        if count < STOCK_MAX / 2 { STOCK_MAX - count } else { 0 }
    }

    pub(super) fn event_seq_stock(&self) -> MutexGuard<'_, EventSeqStock> {
        let mut stock = locked(&self.event_seq_stock);
        stock.valid_for(self.writers.connections_made());
        stock
    }

    pub(super) async fn fast_submit(
        &self,
        db: &mut PooledConnection,
        plan: &BatchPlan<'_>,
        (settings, (now, event_seq)): (Arc<SettingsCache>, (Timestamp, i64)),
        notification: &Notification,
    ) -> Result<Vec<Reply>> {
        let version = settings.version;
        let mut transaction = Transaction::new(self, (now, 0), settings, vec![event_seq]);
        let mut replies = Vec::with_capacity(plan.requests.len());
        for (_, request) in &plan.requests {
            replies.push(execute_request(&mut transaction, request)?);
        }
        db.mark_open();
        let sent = {
            let sending = pin!(save::fast_submit(db, &transaction.pending, (now, version)));
            self.send_then_notify(db, notification, sending).await
        };
        let sent = match sent {
            Err(error) if error.is_unanswered() => {
                let numbers =
                    transaction.pending.new_jobs.iter().map(|new| new.stored.no).collect();
                return Err(TransactionError::Unacknowledged(Box::new(Unacknowledged {
                    error,
                    numbers,
                    replies,
                })));
            }
            sent => sent,
        };
        db.mark_closed();
        self.event_seq_stock().keep(sent?);
        self.note_committed(&transaction, None, WorkerUpdates::default());
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
        let Unacknowledged { mut error, numbers, replies } = unacknowledged;
        self.forget_connections();
        for _ in 0..OUTCOME_QUERIES_MAX {
            // A job that has run and was erased meanwhile would not be found by its id.
            if self.are_erased(&numbers).await.unwrap_or(false) {
                return Ok(replies);
            }
            match self.execute_with_retries(writers, (batch, notification), true).await {
                Ok(replies) => return Ok(replies),
                Err(again) if again.is_unanswered() => error = again,
                Err(again) => return Err(again.unknown()),
            }
            tokio::time::sleep(OUTCOME_QUERY_EVERY).await;
        }
        Err(error.unknown())
    }

    /// Whether some of these jobs were erased. The table `erased` shows it for as long as their
    /// events are kept.
    async fn are_erased(&self, numbers: &[i64]) -> Result<bool> {
        let db = self.readers.acquire().await?;
        Ok(!db.rows(sql::ERASED_AMONG, &[&numbers]).await?.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::EventSeqStock;
    use engine::Timestamp;

    #[test]
    fn of_one_millisecond_the_later_event_seq_is_used_later() {
        let [now, later] = [1, 2].map(Timestamp::from_unix_ms);
        let mut stock = EventSeqStock::default();
        [30, 10, 20, 40].into_iter().for_each(|event_seq| stock.keep(event_seq));
        assert_eq!(stock.next(now), Some(10));
        stock.mark_used(25, now);
        assert_eq!(stock.next(now), Some(30), "20 is before 25");
        assert_eq!(stock.next(later), Some(20));
        assert_eq!(stock.next(later), Some(40));
        assert_eq!(stock.next(later), None);
    }

    #[test]
    fn event_seqs_of_another_server_are_forgotten() {
        let mut stock = EventSeqStock::default();
        stock.valid_for(3).keep(10);
        assert_eq!(stock.valid_for(4).next(Timestamp::from_unix_ms(1)), None);
    }
}
