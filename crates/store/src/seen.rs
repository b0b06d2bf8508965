//! Workers as they were last seen, with what they hold: told alike by every store that keeps them in rows.

use crate::{form::body::Seen, queue::WorkerSeen};
use engine::{Job, Scope, Timestamp, WorkerId, is_live};
use std::collections::BTreeMap;

/// Two tenants may both have a `worker-1`.
pub(crate) type Name = (Scope, WorkerId);
pub(crate) type Workers = BTreeMap<Name, Seen>;

/// The leases of every worker.
#[derive(Default)]
pub(crate) struct Leases(BTreeMap<Name, Held>);

struct Held {
    count: u64,
    /// When the last of them ends.
    until: Timestamp,
}

impl Leases {
    /// Counts a job, if it runs.
    pub(crate) fn count(&mut self, job: &Job) {
        let Some(lease) = job.lease() else { return };
        let name = (lease.scope.clone(), lease.worker.clone());
        let held = self.0.entry(name).or_insert(Held { count: 0, until: Timestamp::default() });
        held.count += 1;
        held.until = held.until.max(lease.expires_at);
    }

    /// When the last lease of a worker ends.
    pub(crate) fn until(&self, name: &Name) -> Option<Timestamp> {
        self.0.get(name).map(|held| held.until)
    }
}

/// Workers in scope, as an operator sees them.
pub(crate) fn described(
    workers: &Workers,
    leases: &Leases,
    scope: &Scope,
    now: Timestamp,
) -> Vec<WorkerSeen> {
    let visible = workers.iter().filter(|((own, _), _)| *scope == Scope::All || scope == own);
    let described = visible.map(|(name, seen)| WorkerSeen {
        scope: name.0.clone(),
        worker: name.1.clone(),
        host: seen.host.clone(),
        job_types: seen.job_types.clone(),
        seen_at: seen.seen_at,
        running: leases.0.get(name).map_or(0, |held| held.count),
        live: is_live(seen.seen_at, leases.until(name), now),
    });
    described.collect()
}
