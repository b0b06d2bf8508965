//! Jobs that this node has written last, as far as it knows.
//!
//! Nearly every report is about a job that the same node has leased a moment ago. It is decided about from memory, and
//! nothing is read or locked for it: what ends the job removes its row only where that is still the one this node wrote, by
//! the transaction that PostgreSQL keeps with every row, and fails otherwise. Then nothing has happened, and
//! everything is read.

use super::{
    Inner, batch_plan::BatchPlan, error::TransactionError, locked, transaction::Transaction,
    uuid::Xid,
};
use crate::{codec::stored::Stored, job_cache::CachedSize};
use engine::{Command, JobId};
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

/// A job with a lease, and the transaction that wrote its row.
pub(super) struct LeasedRow {
    stored: Arc<Stored>,
    by: Xid,
}

impl CachedSize for LeasedRow {
    fn stored(&self) -> &Stored {
        &self.stored
    }

    fn more_bytes(&self) -> usize {
        0
    }
}

/// What a batch is decided on without having been read, and which transactions wrote it.
#[derive(Default)]
pub(super) struct CachedLeases {
    pub(super) jobs: HashMap<JobId, Arc<Stored>>,
    pub(super) by: BTreeMap<i64, Xid>,
}

impl Inner {
    /// All jobs of a batch from memory, or none: rows are locked in one order by everybody, so some cannot be locked now and
    /// others later.
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

    /// Remembers what a transaction has written, now that it is committed.
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

/// Whether a command comes from the lease that the job had. Whatever else is said to it may be true of what it has become
/// since, and would be answered without a row being touched.
fn is_report_under(stored: &Stored, command: &Command) -> bool {
    let holder = stored.job.lease().map(|lease| &lease.token);
    holder.is_some() && command.token() == holder && command.step().is_none()
}

impl Transaction {
    /// Fails where a job from memory was left as it was: nothing would prove that it still is.
    pub(super) fn expect_changes(&self) -> Result<(), TransactionError> {
        let changed = |no: &i64| self.pending.jobs.contains_key(no);
        if self.recalled.keys().all(changed) { Ok(()) } else { Err(TransactionError::Changed) }
    }
}
