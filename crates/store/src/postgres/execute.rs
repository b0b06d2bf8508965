//! One batch, one transaction: lock, load, decide, write, commit. Everything in its turn.

use super::{
    Inner,
    batch_plan::BatchPlan,
    error::TransactionError,
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
    unit_of_work::carry_out,
};
use engine::{Backoff, JobId};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// Transactions that were in each other's way are tried again so often.
pub(super) const ATTEMPTS_MAX: u32 = 6;
/// How long they wait before that.
const COLLISION_BACKOFF: Backoff =
    Backoff::doubling(Duration::from_millis(3), Duration::from_millis(50));

impl Inner {
    /// Carries out a batch; replies keep the order of the requests.
    pub(super) async fn execute(
        &self,
        writers: &Arc<Pool>,
        batch: &[Request],
        notification: &Notification,
    ) -> Result<Vec<Reply>, TransactionError> {
        match self.execute_at_length(writers, (batch, notification), false).await {
            Err(TransactionError::Unacknowledged(unheard)) => {
                // It is rare, and as large as all that goes before it.
                Box::pin(self.hand_over_again(writers, (batch, notification), *unheard)).await
            }
            done => done,
        }
    }

    /// Tries to carry out a batch as often as makes sense.
    pub(super) async fn execute_at_length(
        &self,
        writers: &Arc<Pool>,
        (batch, notification): (&[Request], &Notification),
        mut pessimistic: bool,
    ) -> Result<Vec<Reply>, TransactionError> {
        for attempt in 1..=ATTEMPTS_MAX {
            match self.try_execute(writers, (batch, notification), pessimistic).await {
                Ok(done) => return Ok(done),
                // Nothing was done. When those are jobs, it can be.
                Err(TransactionError::InInbox(ids)) if attempt < ATTEMPTS_MAX => {
                    self.let_in(&ids).await?
                }
                Err(trouble) => self.recover(trouble, attempt, &mut pessimistic).await?,
            }
        }
        Err(TransactionError::Contended(None))
    }

    /// Sees to it that the same may be tried again. What is no use to try again is given back.
    pub(super) async fn recover(
        &self,
        trouble: TransactionError,
        attempt: u32,
        pessimistic: &mut bool,
    ) -> Result<(), TransactionError> {
        // Somebody may be at the very same: what was not there when it was looked up is there now.
        let unclear = trouble.is_an_echo() || trouble.is_a_repeat();
        let is_contended = trouble.is_a_collision() || trouble.is_a_change() || unclear;
        // A row that is there already although everything was looked up is no contention: rows
        // contradict each other, and the batcher has to find the request that meets them.
        let is_contradiction = trouble.is_a_repeat() && *pessimistic;
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
            // Nothing was done, and another connection may be a good one.
            self.lose();
        } else {
            return Err(trouble);
        }
        Ok(())
    }

    /// A connection is lost: others may be as bad, and who knows which server answers next.
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
    ) -> Result<Vec<Reply>, TransactionError> {
        let plan = BatchPlan::of(batch, pessimistic);
        let mut db = writers.lend().await?;
        let known = self.make_queues(&mut db, &plan).await?;
        if let Some(foreseen) = self.foresee(&db, &plan, &known) {
            return self.fast_submit(&mut db, &plan, (known, foreseen), notification).await;
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
    ) -> Result<Ready, TransactionError> {
        // Whatever is heard on this connection from now on, the server has not crashed since these were made.
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
                | Request::All(_) => carry_out(&mut transaction, request)?,
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
        ready.workers = self.news_of_workers(seen, ready.transaction.now);
        Ok(ready)
    }
}

/// A transaction that has only to be committed.
pub(super) struct Ready {
    pub(super) replies: Vec<Reply>,
    pub(super) transaction: Transaction,
    pub(super) workers: WorkersNotification,
    /// What each claim was given.
    pub(super) given: Vec<(i64, Vec<JobId>)>,
    pub(super) xact: Xact,
    /// Whether there was nothing in the batch but claims.
    pub(super) only_claims: bool,
    /// How many connections had been made when it began.
    pub(super) made: u64,
}
