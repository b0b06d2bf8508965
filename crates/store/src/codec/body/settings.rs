//! Stored workers, counters and metadata of the store.

use crate::queue::Counts;
use engine::{Host, Job, JobType, Scope, Tenant, Timestamp};
use std::{collections::BTreeMap, sync::Arc};

/// A worker as the store last saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredWorker {
    pub(crate) host: Option<Host>,
    /// Shared, because every listing copies the types of all workers.
    pub(crate) job_types: Arc<[JobType]>,
    pub(crate) seen_at: Timestamp,
    /// It signed off, and sent no heartbeat since.
    pub(crate) left: bool,
}

/// A scope as a column: a tenant's name cannot be `*`.
pub(crate) fn to_scope(scope: &Scope) -> &str {
    match scope {
        Scope::One(tenant) => tenant.as_str(),
        Scope::All => "*",
    }
}

pub(crate) fn from_scope(column: &str) -> Option<Scope> {
    if column == "*" { Some(Scope::All) } else { Some(Scope::One(Tenant::parse(column).ok()?)) }
}

/// By how much one commit changed the counts of each queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Deltas(pub(crate) BTreeMap<i64, [i64; COUNTS]>);

/// How many numbers [`Counts`] has.
pub(crate) const COUNTS: usize = 9;

fn numbers(counts: &Counts) -> [u64; COUNTS] {
    let Counts { submitted, queued, running, completed, failed, .. } = *counts;
    let Counts { poisoned, discarded, cancelled, erased, .. } = *counts;
    [submitted, queued, running, completed, failed, poisoned, discarded, cancelled, erased]
}

fn counts(numbers: [u64; COUNTS]) -> Counts {
    let [submitted, queued, running, completed, failed, poisoned, discarded, cancelled, erased] =
        numbers;
    Counts { submitted, queued, running, completed, failed, poisoned, discarded, cancelled, erased }
}

impl Deltas {
    /// Records that the counts of `queue` went from `before` to `after`.
    pub(crate) fn add(&mut self, queue: i64, before: &Counts, after: &Counts) {
        let deltas = self.0.entry(queue).or_default();
        for ((delta, was), is) in deltas.iter_mut().zip(numbers(before)).zip(numbers(after)) {
            *delta += is as i64 - was as i64;
        }
    }

    /// Counts one change of one job, from `before` to `after`.
    pub(crate) fn count(&mut self, queue: i64, before: Option<&Job>, after: Option<&Job>) {
        // Counts cannot go below zero, so the difference is computed from 1,000 of each.
        let some = counts([1_000; COUNTS]);
        let mut changed = some;
        changed.count(before, after);
        self.add(queue, &some, &changed);
    }

    /// Applies the changes to `all`; `None` where they do not fit, which means damage.
    pub(crate) fn apply(&self, all: &mut BTreeMap<i64, Counts>) -> Option<()> {
        for (queue, deltas) in &self.0 {
            let entry = all.entry(*queue).or_default();
            let mut sums = numbers(entry);
            for (sum, delta) in sums.iter_mut().zip(deltas) {
                *sum = sum.checked_add_signed(*delta)?;
            }
            *entry = counts(sums);
        }
        Some(())
    }
}

/// What a commit stores beside its rows: the time and the last numbers that it used, and the
/// changes of the counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Commit {
    pub(crate) at: Timestamp,
    pub(crate) last_no: i64,
    pub(crate) last_event: i64,
    pub(crate) deltas: Deltas,
}

/// The metadata of the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StoreMeta {
    /// Raised by a restore, so that no earlier lease is valid.
    pub(crate) epoch: u32,
    /// Events up to this number are published.
    pub(crate) last_published_event: i64,
    /// Jobs up to this number are in `listing`.
    pub(crate) last_indexed_job: i64,
}
