//! Jobs that this node has leased, as it last wrote them. Another node may have written them since.
//!
//! Nearly every report is about a job that the same node leased a moment ago. The engine decides on
//! the copy in memory, and nothing is read or locked. The statement that ends the job removes its
//! row only if the row is still the one that this node wrote, and fails otherwise; `xmin`, which
//! PostgreSQL keeps with every row, names the transaction that wrote it. After such a failure
//! nothing has happened, and the batch reads everything.

use super::{
    Inner,
    batch_plan::BatchPlan,
    error::{Result, TransactionError},
    locked,
    transaction::Transaction,
    uuid::Xid,
};
use crate::{codec::stored::Stored, job_cache::CachedSize};
use engine::{Command, JobId};
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

/// A leased job, and the transaction that wrote its row.
pub(super) struct LeasedRow {
    stored: Arc<Stored>,
    written_by: Xid,
}

impl CachedSize for LeasedRow {
    fn stored(&self) -> &Stored {
        &self.stored
    }
}

/// The cached jobs that a batch is decided on, and which transactions wrote them.
#[derive(Default)]
pub(super) struct CachedLeases {
    pub(super) jobs: HashMap<JobId, Arc<Stored>>,
    pub(super) written_by: BTreeMap<i64, Xid>,
}

impl Inner {
    /// The jobs of a batch, if the cache has all of them. It cannot take some from the cache and
    /// lock the others: all transactions lock rows in one order.
    pub(super) fn cached_leases(&self, plan: &BatchPlan<'_>) -> Option<CachedLeases> {
        if plan.pessimistic || plan.commands.is_empty() {
            return None;
        }
        let cache = locked(&self.lease_cache);
        let mut cached = CachedLeases::default();
        for (id, command) in &plan.commands {
            let leased = cache.by_id(*id)?;
            if !is_report_of_lease(&leased.stored, command) {
                return None;
            }
            cached.jobs.insert(*id, leased.stored.clone());
            cached.written_by.insert(leased.stored.no, leased.written_by);
        }
        Some(cached)
    }

    /// Remembers what a committed transaction has written.
    pub(super) fn remember(&self, transaction: &Transaction, written_by: Option<Xid>) {
        let mut cache = locked(&self.lease_cache);
        for id in &transaction.changed_jobs {
            let leased = transaction.jobs.get(id).filter(|stored| stored.job.lease().is_some());
            match leased.zip(written_by) {
                Some((stored, written_by)) => {
                    cache.put(LeasedRow { stored: stored.clone(), written_by })
                }
                None => {
                    let no = cache.by_id(*id).map(|leased| leased.stored.no);
                    no.map(|no| cache.forget(no));
                }
            }
        }
    }
}

/// Whether a worker sends this command under the lease that the cached job has. Another command may
/// be about a newer state of the job than the cached one. Its answer may change no row, and then
/// nothing would show that the copy is old.
fn is_report_of_lease(stored: &Stored, command: &Command) -> bool {
    let holder = stored.job.lease().map(|lease| &lease.token);
    holder.is_some() && command.token() == holder && command.step().is_none()
}

impl Transaction {
    /// Fails if the batch leaves a cached job unchanged: no statement would check that the copy is
    /// current.
    pub(super) fn expect_all_changed(&self) -> Result<()> {
        let changed = |no: &i64| self.pending.jobs.contains_key(no);
        if self.cached_rows.keys().all(changed) {
            Ok(())
        } else {
            Err(TransactionError::StaleCache)
        }
    }
}
