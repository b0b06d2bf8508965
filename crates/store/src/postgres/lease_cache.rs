//! Jobs that this node wrote last, as far as it knows.
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
    by: Xid,
}

impl CachedSize for LeasedRow {
    fn stored(&self) -> &Stored {
        &self.stored
    }

    fn extra_bytes(&self) -> usize {
        0
    }
}

/// The cached jobs that a batch is decided on, and which transactions wrote them.
#[derive(Default)]
pub(super) struct CachedLeases {
    pub(super) jobs: HashMap<JobId, Arc<Stored>>,
    pub(super) by: BTreeMap<i64, Xid>,
}

impl Inner {
    /// All jobs of a batch from memory, or none. All transactions lock rows in one order, so a
    /// batch cannot lock some rows now and others later.
    pub(super) fn recall(&self, plan: &BatchPlan<'_>) -> Option<CachedLeases> {
        if plan.pessimistic || plan.commands.is_empty() {
            return None;
        }
        let job_cache = locked(&self.job_cache);
        let mut recalled = CachedLeases::default();
        for (id, command) in &plan.commands {
            let written = job_cache.by_id(*id)?;
            if !is_report_under(&written.stored, command) {
                return None;
            }
            recalled.jobs.insert(*id, written.stored.clone());
            recalled.by.insert(written.stored.no, written.by);
        }
        Some(recalled)
    }

    /// Remembers what a committed transaction has written.
    pub(super) fn remember(&self, transaction: &Transaction, by: Option<Xid>) {
        let mut job_cache = locked(&self.job_cache);
        for id in &transaction.changed {
            let leased = transaction.jobs.get(id).filter(|stored| stored.job.lease().is_some());
            match leased.zip(by) {
                Some((stored, by)) => job_cache.put(LeasedRow { stored: stored.clone(), by }),
                None => {
                    let no = job_cache.by_id(*id).map(|written| written.stored.no);
                    no.map(|no| job_cache.forget(no));
                }
            }
        }
    }
}

/// Whether a command comes from the lease that the cached job has. Any other command may be right
/// about what the job has become since, and its answer would touch no row that could prove it.
fn is_report_under(stored: &Stored, command: &Command) -> bool {
    let holder = stored.job.lease().map(|lease| &lease.token);
    holder.is_some() && command.token() == holder && command.step().is_none()
}

impl Transaction {
    /// Fails if a cached job was left unchanged: then no statement checks that the copy is current.
    pub(super) fn expect_changes(&self) -> Result<()> {
        let changed = |no: &i64| self.pending.jobs.contains_key(no);
        if self.recalled.keys().all(changed) { Ok(()) } else { Err(TransactionError::Changed) }
    }
}
