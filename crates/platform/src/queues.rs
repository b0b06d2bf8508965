//! The queues by type, for operators.

use crate::{Error, Platform};
use engine::{JobType, Scope, Timestamp};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use store::{QueueDepth, WorkerSeen};

/// The queues of one type, over all tenants in scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueSummary {
    /// The job type.
    pub job_type: JobType,
    /// Jobs that wait, due or not.
    pub queued: u64,
    /// Jobs that wait and could start now.
    pub due: u64,
    /// How long the oldest due job has waited.
    pub oldest_age: Option<Duration>,
    /// Jobs that a worker has leased.
    pub running: u64,
    /// Jobs in the poison queue.
    pub poisoned: u64,
    /// Whether all of them are paused.
    pub paused: bool,
    /// Live workers that claim from at least one of them.
    pub live_workers: u64,
}

impl Platform {
    /// Depth and age of every queue in scope.
    pub async fn queues(&self, scope: &Scope) -> Result<Vec<QueueDepth>, Error> {
        Ok(self.store.queues(scope).await?)
    }

    /// The same by type, over all tenants in scope: every type of which there was a job.
    pub async fn queue_summaries(&self, scope: &Scope) -> Result<Vec<QueueSummary>, Error> {
        let mut types: BTreeMap<JobType, Vec<QueueDepth>> = BTreeMap::new();
        for depth in self.store.queues(scope).await? {
            types.entry(depth.queue.job_type.clone()).or_default().push(depth);
        }
        // A tenant has one queue per type, which knows its workers. Over several queues, each
        // worker counts once.
        let workers = match scope {
            Scope::One(_) => Vec::new(),
            Scope::All => self.store.workers(&Scope::All).await?,
        };
        // The store's clock judges what is due, so ages are measured by it.
        let now = self.store.next_due(Timestamp::MAX).await?.now;
        let live = live_by_type(&workers, &types);
        let summary = |(job_type, depths): (JobType, Vec<QueueDepth>)| {
            let workers = live.get(&job_type).map_or(&[][..], Vec::as_slice);
            summary(job_type, &depths, workers, now)
        };
        Ok(types.into_iter().map(summary).collect())
    }
}

fn summary(
    job_type: JobType,
    depths: &[QueueDepth],
    workers: &[&WorkerSeen],
    now: Timestamp,
) -> QueueSummary {
    let sum = |count: fn(&QueueDepth) -> u64| depths.iter().map(count).sum();
    let oldest_due_at = depths.iter().filter_map(|depth| depth.oldest_due_at).min();
    QueueSummary {
        queued: sum(|depth| depth.counts.queued),
        due: sum(|depth| depth.due),
        oldest_age: oldest_due_at.map(|since| now.since(since)),
        running: sum(|depth| depth.counts.running),
        poisoned: sum(|depth| depth.counts.poisoned),
        paused: depths.iter().all(|depth| depth.paused),
        live_workers: live_workers(workers, depths),
        job_type,
    }
}

/// Live workers by the types they claim, for types that several tenants have. One pass over the
/// workers: they may name many types that no job ever had.
fn live_by_type<'w>(
    workers: &'w [WorkerSeen],
    types: &BTreeMap<JobType, Vec<QueueDepth>>,
) -> BTreeMap<&'w JobType, Vec<&'w WorkerSeen>> {
    let is_shared = |job_type: &JobType| types.get(job_type).is_some_and(|depths| depths.len() > 1);
    let mut live: BTreeMap<&JobType, Vec<&WorkerSeen>> = BTreeMap::new();
    for worker in workers.iter().filter(|worker| worker.live) {
        let claimed_types: BTreeSet<&JobType> = worker.job_types.iter().collect();
        for job_type in claimed_types.into_iter().filter(|job_type| is_shared(job_type)) {
            live.entry(job_type).or_default().push(worker);
        }
    }
    live
}

/// The number of `workers`, all of which claim this type. Each counts once, however many of the
/// queues it may claim from.
fn live_workers(workers: &[&WorkerSeen], depths: &[QueueDepth]) -> u64 {
    if let [depth] = depths {
        return depth.live_workers;
    }
    let tenants = || depths.iter().map(|depth| &depth.queue.tenant);
    let claims = |worker: &&&WorkerSeen| tenants().any(|tenant| worker.scope.covers(tenant));
    workers.iter().filter(claims).count() as u64
}
