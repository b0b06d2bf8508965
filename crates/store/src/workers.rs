//! The workers that the store saw lately, with the leases they hold; shared by all stores.

use crate::{
    codec::body::StoredWorker,
    queue::{Queue, WorkerSeen},
};
use engine::{
    Host, Job, JobType, LastSign, Refusal, Scope, TenantLimits, Timestamp, WorkerId, is_live,
};
use std::{collections::BTreeMap, time::Duration};

/// A worker's scope and id. Two tenants may both have a `worker-1`.
pub(crate) type WorkerKey = (Scope, WorkerId);
pub(crate) type Workers = BTreeMap<WorkerKey, StoredWorker>;

/// The leases of every worker.
#[derive(Default)]
pub(crate) struct Leases(BTreeMap<WorkerKey, WorkerLease>);

struct WorkerLease {
    count: u64,
    /// When the last of these leases ends.
    last_expiry: Timestamp,
}

impl Leases {
    /// Counts the lease of a running job.
    pub(crate) fn count(&mut self, job: &Job) {
        let Some(lease) = job.lease() else { return };
        let key = (lease.scope.clone(), lease.worker.clone());
        let total = self
            .0
            .entry(key)
            .or_insert(WorkerLease { count: 0, last_expiry: Timestamp::default() });
        total.count += 1;
        total.last_expiry = total.last_expiry.max(lease.expires_at);
    }

    /// When the last lease of a worker ends.
    pub(crate) fn last_expiry(&self, key: &WorkerKey) -> Option<Timestamp> {
        self.0.get(key).map(|lease| lease.last_expiry)
    }
}

/// Whether a worker of `own` may claim what `scope` covers.
pub(crate) fn may_claim(own: &Scope, scope: &Scope) -> bool {
    *scope == Scope::All || *own == Scope::All || own == scope
}

/// A copy of the workers that may claim what `scope` covers. A listing for one tenant must not cost
/// what the workers of all others would.
pub(crate) fn workers_claiming_in(workers: &Workers, scope: &Scope) -> Workers {
    let claiming = workers.iter().filter(|((own, _), _)| may_claim(own, scope));
    claiming.map(|(key, seen)| (key.clone(), seen.clone())).collect()
}

/// Whether a lease may be the only reason why one of these workers counts as alive.
pub(crate) fn needs_leases(workers: &Workers, now: Timestamp) -> bool {
    workers.values().any(|seen| !is_live(seen.seen_at, None, now))
}

/// How long a tenant at its limit of workers is assumed to stay there, without another count.
pub(crate) const FULL_FOR: Duration = Duration::from_secs(1);

/// Checks that a worker is known or may be added; returns the worker to remove for it, if one must
/// go.
pub(crate) fn room_for_worker(
    workers: &Workers,
    key: &WorkerKey,
    limits: &TenantLimits,
    now: Timestamp,
) -> Result<Option<WorkerKey>, Refusal> {
    if workers.contains_key(key) {
        return Ok(None);
    }
    let own = workers.iter().filter(|((own, _), _)| *own == key.0);
    let own = own.map(|(key, seen)| (key, seen.seen_at));
    Ok(limits.room_for_worker(own, now)?.cloned())
}

/// A worker's row after a claim or heartbeat; what the worker did not state stays as it was.
pub(crate) fn updated_worker(
    before: Option<StoredWorker>,
    host: Option<Host>,
    job_types: Option<Vec<JobType>>,
    seen_at: Timestamp,
) -> StoredWorker {
    let (old_host, old_types) = before.map(|seen| (seen.host, seen.job_types)).unzip();
    let job_types = job_types.map(Into::into).or(old_types);
    let host = host.or(old_host.flatten());
    StoredWorker { host, job_types: job_types.unwrap_or_default(), seen_at, left: false }
}

/// Workers in scope, as an operator sees them.
pub(crate) fn list_workers(
    workers: &Workers,
    leases: &Leases,
    scope: &Scope,
    now: Timestamp,
) -> Vec<WorkerSeen> {
    let visible = workers.iter().filter(|((own, _), _)| *scope == Scope::All || scope == own);
    // A worker that signed off is gone, and not lost. Its leases hold until they are over.
    let present = visible.filter(|(_, seen)| !seen.left);
    let listed = present.map(|(key, seen)| WorkerSeen {
        scope: key.0.clone(),
        worker: key.1.clone(),
        host: seen.host.clone(),
        job_types: seen.job_types.to_vec(),
        seen_at: seen.seen_at,
        running: leases.0.get(key).map_or(0, |lease| lease.count),
        live: is_live(seen.seen_at, leases.last_expiry(key), now),
    });
    listed.collect()
}

/// The last sign of life of the workers that may claim from `queue`.
pub(crate) fn last_sign(workers: &Workers, queue: &Queue) -> Option<LastSign> {
    let claiming = workers.iter().filter(|((scope, _), seen)| {
        scope.covers(&queue.tenant) && seen.job_types.contains(&queue.job_type)
    });
    let ((scope, worker), seen) = claiming.max_by_key(|(_, seen)| seen.seen_at)?;
    Some(LastSign {
        worker: worker.clone(),
        scope: scope.clone(),
        host: seen.host.clone(),
        at: seen.seen_at,
        left: seen.left,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::Tenant;

    /// What one tenant's workers state about themselves must not slow another tenant's lists.
    #[test]
    fn a_listing_reads_only_workers_that_may_claim_in_its_scope() {
        let one = |tenant: &str| Scope::One(Tenant::parse(tenant).expect("lawful"));
        let worker = |scope: Scope| (scope, WorkerId::parse("w").expect("lawful"));
        let seen_at = Timestamp::from_unix_ms(1);
        let seen = StoredWorker { host: None, job_types: [].into(), seen_at, left: false };
        let scopes = [Scope::All, one("acme"), one("hostile")];
        let workers: Workers =
            scopes.iter().map(|scope| (worker(scope.clone()), seen.clone())).collect();
        let claiming = |scope: &Scope| -> Vec<Scope> {
            workers_claiming_in(&workers, scope).into_keys().map(|(own, _)| own).collect()
        };
        assert_eq!(claiming(&one("acme")), [one("acme"), Scope::All]);
        assert_eq!(claiming(&one("another")), [Scope::All]);
        assert_eq!(claiming(&Scope::All).len(), 3);
    }
}
