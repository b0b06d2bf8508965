//! Queues and workers as an operator sees them.

use crate::record::PauseKey;
use engine::{
    Host, Job, JobType, NewJob, Pause, Policy, Refusal, Scope, Status, Tenant, TenantLimit,
    TenantLimits, Timestamp, WorkerId,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The jobs of one type and one tenant: the unit between which claims rotate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Queue {
    /// The job type.
    pub job_type: JobType,
    /// The tenant.
    pub tenant: Tenant,
}

impl Queue {
    /// The queue that `job` belongs to.
    pub fn of(job: &Job) -> Self {
        Queue { job_type: job.envelope.job_type.clone(), tenant: job.envelope.tenant.clone() }
    }

    /// The queue that `new` will wait in.
    pub fn of_new(new: &NewJob) -> Self {
        Queue { job_type: new.job_type.clone(), tenant: new.tenant.clone() }
    }
}

/// How many jobs of a queue are in each state. Every change updates the counts, so that no query
/// counts a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "named after the states; the rest is said")]
pub struct Counts {
    /// All jobs that were ever submitted.
    pub submitted: u64,
    pub queued: u64,
    pub running: u64,
    pub completed: u64,
    pub failed: u64,
    /// Waiting in the poison queue.
    pub poisoned: u64,
    /// Poisoned, and taken out of the poison queue for good.
    pub discarded: u64,
    pub cancelled: u64,
    /// Erased, by a person or by retention.
    pub erased: u64,
}

impl Counts {
    /// Counts one change of one job, from `before` to `after`.
    pub(crate) fn count(&mut self, before: Option<&Job>, after: Option<&Job>) {
        match (before, after) {
            (None, Some(_)) => self.submitted += 1,
            (Some(_), None) => self.erased += 1,
            (Some(_), Some(_)) | (None, None) => {}
        }
        if let Some(job) = before {
            *self.slot(job) -= 1;
        }
        if let Some(job) = after {
            *self.slot(job) += 1;
        }
    }

    fn slot(&mut self, job: &Job) -> &mut u64 {
        match job.status() {
            Status::Queued => &mut self.queued,
            Status::Running => &mut self.running,
            Status::Completed => &mut self.completed,
            Status::Failed => &mut self.failed,
            Status::Poisoned => match job.ended().and_then(|ended| ended.discarded_at) {
                None => &mut self.poisoned,
                Some(_) => &mut self.discarded,
            },
            Status::Cancelled => &mut self.cancelled,
        }
    }
}

/// Depth and age of one queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueDepth {
    /// The queue.
    pub queue: Queue,
    /// How many jobs are in each state.
    pub counts: Counts,
    /// How many of the queued jobs could start now.
    pub due: u64,
    /// When the oldest of these jobs became due.
    pub oldest_due_at: Option<Timestamp>,
    /// A pause stops claims from it.
    pub paused: bool,
    /// Workers that are alive and claim from it.
    pub live_workers: u64,
}

/// A worker as the store has seen it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerSeen {
    /// The worker's id.
    pub worker: WorkerId,
    /// The tenants whose jobs it works on.
    pub scope: Scope,
    /// On which machine, where the worker named it.
    pub host: Option<Host>,
    /// The job types of its last claim.
    pub job_types: Vec<JobType>,
    /// When it last claimed or sent a heartbeat.
    pub seen_at: Timestamp,
    /// How many jobs it holds.
    pub running: u64,
    /// Whether the store takes it to be alive.
    pub live: bool,
}

/// Live workers by the types they claim: a listing looks them up for each of its queues.
pub(crate) struct LiveWorkers<'a>(HashMap<&'a JobType, Vec<&'a Scope>>);

impl<'a> LiveWorkers<'a> {
    /// Keeps only the types of the listed queues: workers may name types that never had a job.
    pub(crate) fn of(
        workers: &'a [WorkerSeen],
        listed: impl IntoIterator<Item = &'a Queue>,
    ) -> Self {
        let mut by_type: HashMap<&JobType, Vec<&Scope>> =
            listed.into_iter().map(|queue| (&queue.job_type, Vec::new())).collect();
        for seen in workers.iter().filter(|seen| seen.live) {
            let types: BTreeSet<&JobType> = seen.job_types.iter().collect();
            for job_type in types {
                by_type.get_mut(job_type).into_iter().for_each(|scopes| scopes.push(&seen.scope));
            }
        }
        LiveWorkers(by_type)
    }

    /// How many may claim from `queue`.
    pub(crate) fn count(&self, queue: &Queue) -> u64 {
        let claiming = self.0.get(&queue.job_type).into_iter().flatten();
        claiming.filter(|scope| scope.covers(&queue.tenant)).count() as u64
    }
}

/// Checks that a scope may pause one more type. A pause costs as much as a queue, and a type may be
/// paused before its first job comes, so both have the same bound.
pub(crate) fn check_pause(
    paused: &BTreeMap<PauseKey, Pause>,
    pause: &PauseKey,
    limits: &TenantLimits,
) -> Result<(), Refusal> {
    if paused.contains_key(pause) {
        return Ok(());
    }
    let own = paused.keys().filter(|(_, scope)| *scope == pause.1).count();
    limits.check(TenantLimit::JobTypes, own as u64)
}

/// The numbers of queues.
#[derive(Default)]
pub(crate) struct Queues {
    by_type: BTreeMap<JobType, BTreeMap<Tenant, i64>>,
    by_tenant: BTreeMap<Tenant, BTreeMap<JobType, i64>>,
    by_no: BTreeMap<i64, Queue>,
}

impl Queues {
    pub(crate) fn add(&mut self, no: i64, queue: Queue) {
        let tenants = self.by_type.entry(queue.job_type.clone()).or_default();
        tenants.insert(queue.tenant.clone(), no);
        let types = self.by_tenant.entry(queue.tenant.clone()).or_default();
        types.insert(queue.job_type.clone(), no);
        self.by_no.insert(no, queue);
    }

    pub(crate) fn no(&self, job_type: &JobType, tenant: &Tenant) -> Option<i64> {
        self.by_type.get(job_type)?.get(tenant).copied()
    }

    pub(crate) fn get(&self, no: i64) -> Option<&Queue> {
        self.by_no.get(&no)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (i64, &Queue)> {
        self.by_no.iter().map(|(no, queue)| (*no, queue))
    }

    pub(crate) fn next_no(&self) -> i64 {
        self.by_no.last_key_value().map_or(1, |(no, _)| no + 1)
    }

    /// The queues in scope, by type and then by tenant.
    pub(crate) fn in_scope(&self, scope: &Scope) -> Vec<(i64, &Queue)> {
        let numbers: Vec<i64> = match scope {
            Scope::One(tenant) => {
                self.by_tenant.get(tenant).into_iter().flatten().map(no).collect()
            }
            Scope::All => self.by_type.values().flatten().map(no).collect(),
        };
        numbers.into_iter().map(|no| (no, &self.by_no[&no])).collect()
    }

    /// The numbers of the queues in scope, of one type or of all.
    pub(crate) fn numbers(&self, job_type: Option<&JobType>, scope: &Scope) -> Vec<i64> {
        match job_type {
            Some(job_type) => self.of_type(job_type, scope).map(|(no, _)| no).collect(),
            None => self.in_scope(scope).into_iter().map(|(no, _)| no).collect(),
        }
    }

    /// How many queues a tenant has of types without a policy. Looks up each policy, not each
    /// queue: a tenant has many queues where this matters.
    pub(crate) fn undeclared_types(
        &self,
        tenant: &Tenant,
        policies: &BTreeMap<JobType, Policy>,
    ) -> u64 {
        let Some(types) = self.by_tenant.get(tenant) else { return 0 };
        let declared = policies.keys().filter(|declared| types.contains_key(*declared)).count();
        (types.len() - declared) as u64
    }

    /// The queues of one type that are in scope.
    pub(crate) fn of_type<'a>(
        &'a self,
        job_type: &JobType,
        scope: &'a Scope,
    ) -> impl Iterator<Item = (i64, &'a Queue)> {
        let tenants = self.by_type.get(job_type).into_iter().flatten();
        let visible = tenants.filter(move |(tenant, _)| scope.covers(tenant));
        visible.map(|(_, no)| (*no, &self.by_no[no]))
    }
}

fn no<T>((_, no): (&T, &i64)) -> i64 {
    *no
}
