//! The queues by type, for operators.

use crate::{Error, Platform};
use engine::{JobType, Pause, Scope, Tenant, Timestamp};
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
    /// The pauses of at least one of them, that of all tenants first.
    pub pauses: Vec<Pause>,
    /// Whether a job of the type has come, a live worker claims it, or it has a policy. A pause of
    /// a type that is not known is probably a typing error.
    pub is_known: bool,
    /// Live workers that claim from at least one of them.
    pub live_workers: u64,
}

/// The queues of one tenant, over all types.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of QueueSummary")]
pub struct TenantSummary {
    pub tenant: Tenant,
    pub queued: u64,
    pub due: u64,
    pub oldest_age: Option<Duration>,
    pub running: u64,
    pub poisoned: u64,
}

/// Queues, summed up in two ways.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueSums {
    /// By type.
    pub types: Vec<QueueSummary>,
    /// By tenant.
    pub tenants: Vec<TenantSummary>,
}

impl QueueSummary {
    /// The summary for a reader who sees one tenant.
    #[must_use]
    pub fn for_one_tenant(mut self) -> Self {
        self.pauses = self.pauses.into_iter().map(Pause::for_one_tenant).collect();
        self
    }
}

impl Platform {
    /// Depth and age of every queue in scope.
    pub async fn queues(&self, scope: &Scope) -> Result<Vec<QueueDepth>, Error> {
        Ok(self.store.queues(scope).await?)
    }

    /// The same by type and by tenant, from one read, for a caller who may see only some types:
    /// every type of which there was a job, and every type that is paused. A type that only the
    /// pause of all tenants names is not in the sums of one.
    pub async fn queue_sums(
        &self,
        scope: &Scope,
        may_see: &(dyn Fn(&JobType) -> bool + Send + Sync),
    ) -> Result<QueueSums, Error> {
        let mut depths = self.store.queues(scope).await?;
        depths.retain(|depth| may_see(&depth.queue.job_type));
        let mut pauses = self.store.pauses().await?;
        pauses.retain(|pause| may_see(&pause.job_type));
        let pauses = pauses_of(scope, &depths, pauses);
        // The store's clock judges what is due, so ages are measured by it.
        let now = self.store.next_due(Timestamp::MAX).await?.now;
        let tenants = tenant_summaries(&depths, now);
        Ok(QueueSums { types: self.type_summaries(depths, pauses, now, scope).await?, tenants })
    }

    async fn type_summaries(
        &self,
        depths: Vec<QueueDepth>,
        all_pauses: Vec<Pause>,
        now: Timestamp,
        scope: &Scope,
    ) -> Result<Vec<QueueSummary>, Error> {
        let mut types: BTreeMap<JobType, Vec<QueueDepth>> = BTreeMap::new();
        for depth in depths {
            types.entry(depth.queue.job_type.clone()).or_default().push(depth);
        }
        let mut pauses: BTreeMap<JobType, Vec<Pause>> = BTreeMap::new();
        for pause in all_pauses {
            types.entry(pause.job_type.clone()).or_default();
            pauses.entry(pause.job_type.clone()).or_default().push(pause);
        }
        // A tenant has one queue per type, which knows its workers. Over several queues, each
        // worker counts once. A type that is only paused has no queue.
        let has_empty = types.values().any(Vec::is_empty);
        let (workers, declared) = match has_empty || *scope == Scope::All {
            true => (self.workers_claiming_in(scope).await?, self.declared(has_empty).await?),
            false => (Vec::new(), BTreeSet::new()),
        };
        let live = live_by_type(&workers, &types);
        let summary = |(job_type, depths): (JobType, Vec<QueueDepth>)| {
            let workers = live.get(&job_type).map_or(&[][..], Vec::as_slice);
            let pauses = pauses.remove(&job_type).unwrap_or_default();
            let is_declared = declared.contains(&job_type);
            let facts = SummaryFacts { workers, pauses, is_declared, now };
            summary(job_type, &depths, facts, scope)
        };
        Ok(types.into_iter().map(summary).collect())
    }

    /// Whether a type has a policy, or a worker that may claim it in `scope`. A type that is
    /// neither, and has no job, is probably misspelt.
    pub async fn is_known_type(&self, scope: &Scope, job_type: &JobType) -> Result<bool, Error> {
        let workers = self.workers_claiming_in(scope).await?;
        let is_claimed = workers.iter().any(|worker| worker.job_types.contains(job_type));
        Ok(is_claimed || self.declared(true).await?.contains(job_type))
    }

    /// The live workers that may claim in `scope`.
    async fn workers_claiming_in(&self, scope: &Scope) -> Result<Vec<WorkerSeen>, Error> {
        let mut workers = self.store.workers(&Scope::All).await?;
        let may_claim = |of: &Scope| *scope == Scope::All || *of == Scope::All || of == scope;
        workers.retain(|worker| worker.live && may_claim(&worker.scope));
        Ok(workers)
    }

    /// The types that have a policy; none where that makes no difference.
    async fn declared(&self, is_needed: bool) -> Result<BTreeSet<JobType>, Error> {
        if !is_needed {
            return Ok(BTreeSet::new());
        }
        Ok(self.store.policies().await?.into_keys().collect())
    }
}

/// The pauses that a reader of `scope` sees, whose queues are `depths`.
fn pauses_of(scope: &Scope, depths: &[QueueDepth], mut pauses: Vec<Pause>) -> Vec<Pause> {
    let types: BTreeSet<&JobType> = depths.iter().map(|depth| &depth.queue.job_type).collect();
    pauses.retain(|pause| pause.concerns(scope, types.contains(&pause.job_type)));
    pauses
}

fn tenant_summaries(depths: &[QueueDepth], now: Timestamp) -> Vec<TenantSummary> {
    let mut by_tenant: BTreeMap<&Tenant, Vec<&QueueDepth>> = BTreeMap::new();
    for depth in depths {
        by_tenant.entry(&depth.queue.tenant).or_default().push(depth);
    }
    let summary = |(tenant, depths): (&Tenant, Vec<&QueueDepth>)| {
        let sum = |count: fn(&QueueDepth) -> u64| depths.iter().map(|depth| count(depth)).sum();
        let oldest_due_at = depths.iter().filter_map(|depth| depth.oldest_due_at).min();
        TenantSummary {
            tenant: tenant.clone(),
            queued: sum(|depth| depth.counts.queued),
            due: sum(|depth| depth.due),
            oldest_age: oldest_due_at.map(|since| now.since(since)),
            running: sum(|depth| depth.counts.running),
            poisoned: sum(|depth| depth.counts.poisoned),
        }
    };
    by_tenant.into_iter().map(summary).collect()
}

/// What a summary needs beside the depths of its queues.
struct SummaryFacts<'w> {
    /// The live workers that claim the type, where there is not exactly one queue.
    workers: &'w [&'w WorkerSeen],
    pauses: Vec<Pause>,
    is_declared: bool,
    now: Timestamp,
}

fn summary(
    job_type: JobType,
    depths: &[QueueDepth],
    SummaryFacts { workers, pauses, is_declared, now }: SummaryFacts<'_>,
    scope: &Scope,
) -> QueueSummary {
    let sum = |count: fn(&QueueDepth) -> u64| depths.iter().map(count).sum();
    let oldest_due_at = depths.iter().filter_map(|depth| depth.oldest_due_at).min();
    QueueSummary {
        queued: sum(|depth| depth.counts.queued),
        due: sum(|depth| depth.due),
        oldest_age: oldest_due_at.map(|since| now.since(since)),
        running: sum(|depth| depth.counts.running),
        poisoned: sum(|depth| depth.counts.poisoned),
        paused: is_paused(depths, &pauses, scope),
        is_known: is_declared || !depths.is_empty() || !workers.is_empty(),
        live_workers: live_workers(workers, depths),
        pauses,
        job_type,
    }
}

/// Whether every queue of the type in `scope` is paused, those that do not exist yet included where
/// none does.
fn is_paused(depths: &[QueueDepth], pauses: &[Pause], scope: &Scope) -> bool {
    if depths.is_empty() {
        return pauses.iter().any(|pause| pause.scope == Scope::All || pause.scope == *scope);
    }
    depths.iter().all(|depth| depth.paused)
}

/// Live workers by the types they claim, for types that do not have one queue. One pass over the
/// workers: they may name many types that no job ever had.
fn live_by_type<'w>(
    workers: &'w [WorkerSeen],
    types: &BTreeMap<JobType, Vec<QueueDepth>>,
) -> BTreeMap<&'w JobType, Vec<&'w WorkerSeen>> {
    let is_shared =
        |job_type: &JobType| types.get(job_type).is_some_and(|depths| depths.len() != 1);
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
    match depths {
        [] => return workers.len() as u64,
        [depth] => return depth.live_workers,
        [_, ..] => {}
    }
    let tenants = || depths.iter().map(|depth| &depth.queue.tenant);
    let claims = |worker: &&&WorkerSeen| tenants().any(|tenant| worker.scope.covers(tenant));
    workers.iter().filter(claims).count() as u64
}
