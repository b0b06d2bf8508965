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
    workers::{self, WorkerSign, WorkerUpdates},
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
        match self.execute_with_retries(writers, (batch, notification), false).await {
            Err(TransactionError::Unacknowledged(unacknowledged)) => {
                // Boxed: this path is rare, and its future is as large as everything before it.
                Box::pin(self.resubmit(writers, (batch, notification), *unacknowledged)).await
            }
            other => other,
        }
    }

    /// Executes a batch, and repeats it after failures that may pass.
    pub(super) async fn execute_with_retries(
        &self,
        writers: &Arc<Pool>,
        (batch, notification): (&[Request], &Notification),
        mut pessimistic: bool,
    ) -> Result<Vec<Reply>> {
        for attempt in 1..=ATTEMPTS_MAX {
            match self.try_execute(writers, (batch, notification), pessimistic).await {
                Ok(replies) => return Ok(replies),
                // Nothing was done. The batch can run once these inbox rows are jobs.
                Err(TransactionError::InInbox(ids)) if attempt < ATTEMPTS_MAX => {
                    self.promote_now(&ids).await?
                }
                Err(error) => self.recover(error, attempt, &mut pessimistic).await?,
            }
        }
        Err(TransactionError::Contended(None))
    }

    /// Prepares a retry, or returns the error if a retry cannot succeed.
    pub(super) async fn recover(
        &self,
        error: TransactionError,
        attempt: u32,
        pessimistic: &mut bool,
    ) -> Result<()> {
        // Another transaction may have done the same: a row that was missing when it was looked up
        // exists now.
        let unclear = error.is_aborted_transaction() || error.is_duplicate_row();
        let is_contended = error.is_collision() || error.is_stale_cache() || unclear;
        // A duplicate row although everything was read is no contention. Rows contradict each
        // other, and the batcher has to find the request that needs them.
        let is_contradiction = error.is_duplicate_row() && *pessimistic;
        if is_contended && !is_contradiction && attempt == ATTEMPTS_MAX {
            return Err(TransactionError::Contended(Some(Box::new(error))));
        }
        if (error.is_stale_cache() || unclear) && !*pessimistic {
            *pessimistic = true;
        } else if (error.is_collision() || unclear) && attempt < ATTEMPTS_MAX {
            self.back_off(attempt).await;
        } else if matches!(error, TransactionError::ClockJumped) {
            self.extend_leases_if_jumped().await?;
        } else if error.is_connection_lost() && attempt == 1 {
            // Nothing was done, and another connection may work.
            self.forget_connections();
        } else {
            return Err(error);
        }
        Ok(())
    }

    /// Discards all connections and the lease cache after one connection is lost: others may be
    /// broken as well, and the next connection may reach another server.
    pub(super) fn forget_connections(&self) {
        self.writers.forget_all();
        locked(&self.lease_cache).forget_all();
    }

    async fn back_off(&self, attempt: u32) {
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
        let settings = self.make_queues(&mut db, &plan).await?;
        if let Some(prediction) = self.predict(&db, &plan, &settings) {
            return self.fast_submit(&mut db, &plan, (settings, prediction), notification).await;
        }
        db.in_transaction(async |db| {
            let uncommitted = self.decide_batch(db, &plan, settings).await?;
            self.commit(db, uncommitted, notification).await
        })
        .await
    }

    /// Everything but the commit.
    pub(super) async fn decide_batch(
        &self,
        db: &PooledConnection,
        plan: &BatchPlan<'_>,
        settings: Arc<SettingsCache>,
    ) -> Result<UncommittedBatch> {
        // If a connection that was made before this point still answers after the commit, the
        // server has not crashed since.
        let connections_made = self.readers.connections_made();
        let (mut transaction, claim_results, xact) = self.lock_and_load(db, plan, settings).await?;
        let (mut replies, mut signs) = decide_requests(plan, &mut transaction)?;
        transaction.expect_all_changed()?;
        let mut uncommitted = UncommittedBatch {
            replies: Vec::new(),
            transaction,
            workers: WorkerUpdates::default(),
            granted: Vec::new(),
            xact,
            only_claims: plan.only_claims(),
            connections_made,
        };
        if !plan.claims.is_empty() {
            self.write(db, &mut uncommitted.transaction).await?;
            let claimed = self.claim(db, plan, &claim_results, &mut uncommitted).await?;
            for (claim, jobs) in plan.claims.iter().zip(claimed) {
                let claim_request = claim.claim_request;
                replies.insert(claim.index, Ok(Answer::Claimed(jobs)));
                let host = claim_request.host.as_ref();
                let sign = WorkerSign::of(claim.scope, &claim_request.worker);
                signs.insert(
                    0,
                    WorkerSign { host, job_types: Some(&claim_request.job_types[..]), ..sign },
                );
            }
        }
        uncommitted.replies = replies.into_values().collect();
        uncommitted.workers = self.update_workers(signs, uncommitted.transaction.now);
        workers::complete(db, &mut uncommitted.workers).await?;
        Ok(uncommitted)
    }
}

/// Decides all requests but the claims. Returns their replies by position, and which workers gave
/// a sign of life.
fn decide_requests<'a>(
    plan: &BatchPlan<'a>,
    transaction: &mut Transaction,
) -> Result<(BTreeMap<usize, Reply>, Vec<WorkerSign<'a>>)> {
    let (mut replies, mut signs) = (BTreeMap::new(), Vec::new());
    for (index, request) in &plan.requests {
        let reply = match request {
            Request::Claim { .. } => continue,
            Request::WorkerAlive { scope, worker } => {
                signs.push(WorkerSign::of(scope, worker));
                Ok(Answer::Done)
            }
            Request::Leave { scope, worker } => {
                signs.push(WorkerSign { left: true, ..WorkerSign::of(scope, worker) });
                Ok(Answer::Done)
            }
            Request::Submit(_)
            | Request::Command { .. }
            | Request::Pause { .. }
            | Request::Resume { .. }
            | Request::PutRecord(_)
            | Request::Audit(_)
            | Request::All(_) => execute_request(transaction, request)?,
        };
        replies.insert(*index, reply);
    }
    Ok((replies, signs))
}

/// A batch that was decided and written, except for what the commit writes.
pub(super) struct UncommittedBatch {
    pub(super) replies: Vec<Reply>,
    pub(super) transaction: Transaction,
    pub(super) workers: WorkerUpdates,
    /// The digests of claims, and the jobs that each claim got.
    pub(super) granted: Vec<(i64, Vec<JobId>)>,
    pub(super) xact: Xact,
    /// Whether the batch contains only claims.
    pub(super) only_claims: bool,
    /// How many connections this node had made when the transaction began.
    pub(super) connections_made: u64,
}
