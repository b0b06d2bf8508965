//! Executes a batch in one transaction: lock, load, decide, write, commit.

use super::{
    Inner,
    batch_plan::BatchPlan,
    error::{Result, TransactionError},
    locked,
    pool::{Pool, PooledConnection},
    settings_cache::SettingsCache,
    transaction::Transaction,
    uuid::Xact,
    workers::{Sign, WorkersNotification},
};
use crate::{
    node::Notification,
    store::{Answer, Reply, Request},
    unit_of_work::execute_request,
};
use engine::{Backoff, JobId};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// Transactions that collide are tried this often.
pub(super) const ATTEMPTS_MAX: u32 = 6;
const COLLISION_BACKOFF: Backoff =
    Backoff::doubling(Duration::from_millis(3), Duration::from_millis(50));

impl Inner {
    /// Executes a batch; replies keep the order of the requests.
    pub(super) async fn execute(
        &self,
        writers: &Arc<Pool>,
        batch: &[Request],
        notification: &Notification,
    ) -> Result<Vec<Reply>> {
        match self.execute_at_length(writers, (batch, notification), false).await {
            Err(TransactionError::Unacknowledged(unacknowledged)) => {
                // Boxed: this path is rare, and its future is as large as everything before it.
                Box::pin(self.resubmit(writers, (batch, notification), *unacknowledged)).await
            }
            done => done,
        }
    }

    /// Executes a batch, with retries where they make sense.
    pub(super) async fn execute_at_length(
        &self,
        writers: &Arc<Pool>,
        (batch, notification): (&[Request], &Notification),
        mut pessimistic: bool,
    ) -> Result<Vec<Reply>> {
        for attempt in 1..=ATTEMPTS_MAX {
            match self.try_execute(writers, (batch, notification), pessimistic).await {
                Ok(done) => return Ok(done),
                // Nothing was done. The batch can run once these inbox rows are jobs.
                Err(TransactionError::InInbox(ids)) if attempt < ATTEMPTS_MAX => {
                    self.promote_now(&ids).await?
                }
                Err(trouble) => self.recover(trouble, attempt, &mut pessimistic).await?,
            }
        }
        Err(TransactionError::Contended(None))
    }

    /// Prepares a retry, or returns the error if a retry is no use.
    pub(super) async fn recover(
        &self,
        trouble: TransactionError,
        attempt: u32,
        pessimistic: &mut bool,
    ) -> Result<()> {
        // Another transaction may have done the same: a row that was missing when it was looked up
        // exists now.
        let unclear = trouble.is_aborted_transaction() || trouble.is_duplicate_row();
        let is_contended = trouble.is_a_collision() || trouble.is_a_change() || unclear;
        // A duplicate row although everything was read is no contention. Rows contradict each
        // other, and the batcher has to find the request that meets them.
        let is_contradiction = trouble.is_duplicate_row() && *pessimistic;
        if is_contended && !is_contradiction && attempt == ATTEMPTS_MAX {
            return Err(TransactionError::Contended(Some(Box::new(trouble))));
        }
        if (trouble.is_a_change() || unclear) && !*pessimistic {
            *pessimistic = true;
        } else if (trouble.is_a_collision() || unclear) && attempt < ATTEMPTS_MAX {
            self.wait_a_moment(attempt).await;
        } else if matches!(trouble, TransactionError::Jumped) {
            self.follow_clock().await?;
        } else if trouble.is_a_lost_connection() && attempt == 1 {
            // Nothing was done, and another connection may work.
            self.lose();
        } else {
            return Err(trouble);
        }
        Ok(())
    }

    /// Discards all connections and caches after one connection is lost: others may be broken as
    /// well, and the next connection may reach another server.
    pub(super) fn lose(&self) {
        self.writers.forget_all();
        locked(&self.job_cache).forget_all();
    }

    async fn wait_a_moment(&self, attempt: u32) {
        tokio::time::sleep(COLLISION_BACKOFF.spread(attempt, self.random.entropy())).await;
    }

    async fn try_execute(
        &self,
        writers: &Arc<Pool>,
        (batch, notification): (&[Request], &Notification),
        pessimistic: bool,
    ) -> Result<Vec<Reply>> {
        let plan = BatchPlan::of(batch, pessimistic);
        let mut db = writers.acquire().await?;
        let known = self.make_queues(&mut db, &plan).await?;
        if let Some(predict) = self.predict(&db, &plan, &known) {
            return self.fast_submit(&mut db, &plan, (known, predict), notification).await;
        }
        db.within(async |db| {
            let ready = self.transaction(db, &plan, known).await?;
            self.commit(db, ready, notification).await
        })
        .await
    }

    /// Everything but the commit.
    pub(super) async fn transaction(
        &self,
        db: &PooledConnection,
        plan: &BatchPlan<'_>,
        known: Arc<SettingsCache>,
    ) -> Result<Ready> {
        // A connection made before this point that still answers later proves that the server has
        // not crashed since.
        let made = self.readers.made();
        let (mut transaction, held, xact) = self.load(db, plan, known).await?;
        let mut replies: BTreeMap<usize, Reply> = BTreeMap::new();
        let mut seen = Vec::new();
        for (index, request) in &plan.requests {
            let reply = match request {
                Request::Claim { .. } => continue,
                Request::WorkerAlive { scope, worker } => {
                    seen.push(Sign::of(scope, worker));
                    Ok(Answer::Done)
                }
                Request::Leave { scope, worker } => {
                    seen.push(Sign { left: true, ..Sign::of(scope, worker) });
                    Ok(Answer::Done)
                }
                Request::Submit(_)
                | Request::Job { .. }
                | Request::Pause { .. }
                | Request::Resume { .. }
                | Request::PutRecord(_)
                | Request::Audit(_)
                | Request::All(_) => execute_request(&mut transaction, request)?,
            };
            replies.insert(*index, reply);
        }
        transaction.expect_changes()?;
        let mut ready = Ready {
            replies: Vec::new(),
            transaction,
            workers: WorkersNotification::default(),
            given: Vec::new(),
            xact,
            only_claims: plan.only_claims(),
            made,
        };
        if !plan.claims.is_empty() {
            self.write(db, &mut ready.transaction).await?;
            let claimed = self.claim(db, plan, &held, &mut ready).await?;
            for (wanted, jobs) in plan.claims.iter().zip(claimed) {
                let claim_request = wanted.claim_request;
                replies.insert(wanted.index, Ok(Answer::Claimed(jobs)));
                let host = claim_request.host.as_ref();
                let sign = Sign::of(wanted.scope, &claim_request.worker);
                seen.insert(
                    0,
                    Sign { host, job_types: Some(&claim_request.job_types[..]), ..sign },
                );
            }
        }
        ready.replies = replies.into_values().collect();
        ready.workers = self.update_workers(seen, ready.transaction.now);
        Ok(ready)
    }
}

/// A transaction that only has to be committed.
pub(super) struct Ready {
    pub(super) replies: Vec<Reply>,
    pub(super) transaction: Transaction,
    pub(super) workers: WorkersNotification,
    /// The jobs that each claim got.
    pub(super) given: Vec<(i64, Vec<JobId>)>,
    pub(super) xact: Xact,
    /// Whether the batch contains only claims.
    pub(super) only_claims: bool,
    /// How many connections had been made when the transaction began.
    pub(super) made: u64,
}
