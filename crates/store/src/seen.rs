//! Workers as they were last seen, with what they hold: told alike by every store that keeps them in rows.

use crate::{form::body::Seen, queue::WorkerSeen};
use engine::{Job, Refusal, Scope, TenantLimits, Timestamp, WorkerId, is_live};
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

/// Whether some of those who may claim in scope could be alive only by a lease.
pub(crate) fn needs_leases(workers: &Workers, scope: &Scope, now: Timestamp) -> bool {
    let claims = |own: &Scope| *scope == Scope::All || *own == Scope::All || own == scope;
    workers.iter().any(|((own, _), seen)| claims(own) && !is_live(seen.seen_at, None, now))
}

/// Whether a worker is known or may be, and which one goes to make room for it.
pub(crate) fn room_for_worker(
    workers: &Workers,
    name: &Name,
    limits: &TenantLimits,
    now: Timestamp,
) -> Result<Option<Name>, Refusal> {
    if workers.contains_key(name) {
        return Ok(None);
    }
    let own = workers.iter().filter(|((own, _), _)| *own == name.0);
    let own = own.map(|(name, seen)| (name, seen.seen_at));
    Ok(limits.room_for_worker(own, now)?.cloned())
}

/// Workers in scope, as an operator sees them.
pub(crate) fn described(
    workers: &Workers,
    leases: &Leases,
    scope: &Scope,
    now: Timestamp,
) -> Vec<WorkerSeen> {
    let visible = workers.iter().filter(|((own, _), _)| *scope == Scope::All || scope == own);
    // A worker that signed off is shown only while it holds something.
    let there = visible.filter(|(name, seen)| !seen.left || leases.0.contains_key(name));
    let described = there.map(|(name, seen)| WorkerSeen {
        scope: name.0.clone(),
        worker: name.1.clone(),
        host: seen.host.clone(),
        job_types: seen.job_types.clone(),
        seen_at: seen.seen_at,
        running: leases.0.get(name).map_or(0, |held| held.count),
        live: !seen.left && is_live(seen.seen_at, leases.until(name), now),
    });
    described.collect()
}
