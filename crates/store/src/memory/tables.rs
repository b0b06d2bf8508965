//! The tables of the memory store, and how one change is saved.

use super::{nodes::SeenNode, rules::SharedRules};
use crate::{
    clock::{Reading, StoreClock, Tick},
    node::Leadership,
    queue::{Counts, Queue},
    record::Records,
    workers::Workers,
};
use engine::{
    AuditEntry, Change, ClaimId, Event, HistoryEntry, IdempotencyKey, Job, JobId, JobType,
    JsonText, Priority, Scope, Step, StepName, StepsChange, Tenant, TenantLimits, Timestamp,
    WorkerId, after_clock_jump, key_is_free,
};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

/// All data of a store, as plain maps.
#[derive(Clone, Default)]
pub(super) struct Tables {
    pub(super) epoch: u32,
    /// The latest time that was ever used, so that a restart does not go back behind it.
    pub(super) time: Timestamp,
    pub(super) jobs: BTreeMap<JobId, Job>,
    pub(super) payloads: BTreeMap<JobId, JsonText>,
    pub(super) history: BTreeMap<JobId, Vec<HistoryEntry>>,
    pub(super) steps: BTreeMap<JobId, BTreeMap<StepName, Step>>,
    /// Which job holds a key.
    pub(super) keys: BTreeMap<Key, JobId>,
    pub(super) records: Records,
    pub(super) workers: Workers,
    /// Numbered events, oldest first, and the number of the last one ever numbered.
    pub(super) numbered: VecDeque<Event>,
    pub(super) last_number: u64,
    pub(super) outbox: VecDeque<Event>,
    /// Oldest first, numbered from 1 without gaps.
    pub(super) audit: Vec<AuditEntry>,
    /// The nodes that sent a heartbeat, by name.
    pub(super) nodes: BTreeMap<String, SeenNode>,
    pub(super) leadership: Leadership,
    /// How often a setting changed that nodes cache.
    pub(super) settings_version: u64,

    // The following fields are derived from the jobs.
    pub(super) counts: BTreeMap<Queue, Counts>,
    /// The queued jobs of each queue in the order of claims; only queues that have some.
    pub(super) ready: BTreeMap<Queue, BTreeSet<QueuePosition>>,
    pub(super) claims: BTreeMap<ClaimName, BTreeSet<JobId>>,

    // The following fields are not durable: a process forgets them when it dies.
    pub(super) clock: StoreClock,
    /// When a claim last took a job from each queue, by the logical clock `serve_count`. The queue
    /// with the earliest time is served first.
    pub(super) last_served: BTreeMap<Queue, u64>,
    /// A logical clock: the number of jobs that claims have taken so far.
    pub(super) serve_count: u64,
    /// The limits of each tenant, set by the opener of the store.
    pub(super) limits: TenantLimits,
    pub(super) rules: SharedRules,
}

pub(super) type Key = (Tenant, JobType, IdempotencyKey);

/// The worker's scope and name, and the id of its claim. Two tenants may both have a `worker-1`.
pub(super) type ClaimName = (Scope, WorkerId, ClaimId);

fn claim_of(job: &Job) -> Option<ClaimName> {
    let lease = job.lease()?;
    Some((lease.scope.clone(), lease.worker.clone(), lease.claim.clone()))
}

/// The idempotency key of a job.
pub(super) fn key_of(job: &Job) -> Option<Key> {
    let envelope = &job.envelope;
    let name = envelope.key.as_ref()?.name.clone();
    Some((envelope.tenant.clone(), envelope.job_type.clone(), name))
}

/// A queued job's position in its queue: priority first, then due time, then age.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct QueuePosition {
    /// 0 for the highest priority.
    pub(super) rank: u8,
    pub(super) run_at: Timestamp,
    pub(super) id: JobId,
}

impl QueuePosition {
    pub(super) fn of(job: &Job) -> Option<Self> {
        let rank = Priority::HIGHEST.number() - job.envelope.priority.number();
        Some(QueuePosition { rank, run_at: job.run_at()?, id: job.id() })
    }
}

impl Tables {
    /// Advances the store's time.
    pub(super) fn tick(&mut self, reading: Reading) {
        let tick = self.clock.tick(reading);
        self.follow(tick);
    }

    /// Starts the clock of a new process.
    pub(super) fn start_clock(&mut self, reading: Reading) {
        let (clock, tick) = StoreClock::starting_at(self.time, reading);
        self.clock = clock;
        self.follow(tick);
    }

    /// Adopts the time. A clock jump, or an outage during which the store received no heartbeats,
    /// costs no lease.
    fn follow(&mut self, tick: Tick) {
        self.time = tick.now;
        if tick.jumped == Duration::ZERO {
            return;
        }
        let jumped = |job: &Job| after_clock_jump(job, tick.jumped);
        let changes: Vec<Change> = self.jobs.values().filter_map(jumped).collect();
        for change in changes {
            self.save(change);
        }
        for seen in self.workers.values_mut() {
            seen.seen_at = seen.seen_at + tick.jumped;
        }
    }

    /// The store's time, as of the last tick.
    pub(super) fn now(&self) -> Timestamp {
        self.time
    }

    /// How many children of `parent` have not ended.
    pub(super) fn live_children(&self, parent: &Job) -> u64 {
        let is_child = |job: &&Job| {
            job.envelope.parent == Some(parent.id())
                && job.envelope.tenant == parent.envelope.tenant
        };
        let children = self.jobs.values().filter(is_child);
        children.filter(|job| !job.status().is_ended()).count() as u64
    }

    pub(super) fn visible(&self, scope: &Scope, id: JobId) -> Option<&Job> {
        self.jobs.get(&id).filter(|job| scope.covers(&job.envelope.tenant))
    }

    /// The job that holds `key`, unless the key's window is over, whether or not the key was
    /// pruned.
    pub(super) fn holder(&self, key: &Key) -> Option<&Job> {
        let holder = &self.jobs[self.keys.get(key)?];
        let free = key_is_free(holder, self.records.policy(&key.1), self.now());
        (!free).then_some(holder)
    }

    /// Saves a change with all that belongs to it: the only place that writes a job.
    pub(super) fn save(&mut self, change: Change) {
        let Change { job, entry, event, steps, payload, takes_key } = change;
        let id = job.id();
        if let Some(payload) = payload {
            self.payloads.insert(id, payload);
        }
        if let Some(key) = key_of(&job).filter(|_| takes_key) {
            self.keys.insert(key, id);
        }
        let event = event.zip(entry.as_ref().map(|entry| entry.at));
        self.outbox.extend(event.map(|(kind, at)| Event { kind, at, job: job.clone() }));
        self.history.entry(id).or_default().extend(entry);
        match steps {
            StepsChange::Unchanged => {}
            StepsChange::Put(step) => {
                self.steps.entry(id).or_default().insert(step.name.clone(), step);
            }
            StepsChange::Cleared => drop(self.steps.remove(&id)),
        }
        let before = self.jobs.insert(id, job.clone());
        self.reindex(before.as_ref(), Some(&job));
    }

    /// Removes a job with all that belongs to it.
    pub(super) fn erase(&mut self, id: JobId) {
        let before = self.jobs.remove(&id);
        self.payloads.remove(&id);
        self.history.remove(&id);
        self.steps.remove(&id);
        // A key that another job has taken since stays with that job.
        let key = before.as_ref().and_then(key_of);
        if let Some(key) = key.filter(|key| self.keys.get(key) == Some(&id)) {
            self.keys.remove(&key);
        }
        let events = self.numbered.iter_mut().chain(&mut self.outbox);
        events.filter(|event| event.job.id() == id).for_each(|event| *event = event.redacted());
        self.reindex(before.as_ref(), None);
    }

    fn reindex(&mut self, before: Option<&Job>, after: Option<&Job>) {
        let Some(queue) = after.or(before).map(Queue::of) else { return };
        self.counts.entry(queue.clone()).or_default().count(before, after);
        if let Some(position) = before.and_then(QueuePosition::of) {
            self.ready.get_mut(&queue).expect("a queued job is ready").remove(&position);
        }
        if let Some(position) = after.and_then(QueuePosition::of) {
            self.ready.entry(queue.clone()).or_default().insert(position);
        }
        if self.ready.get(&queue).is_some_and(BTreeSet::is_empty) {
            self.ready.remove(&queue);
        }
        if let Some((job, claim)) = before.and_then(|job| Some((job, claim_of(job)?))) {
            let leased_jobs = self.claims.get_mut(&claim).expect("a lease belongs to a claim");
            leased_jobs.remove(&job.id());
            if leased_jobs.is_empty() {
                self.claims.remove(&claim);
            }
        }
        if let Some((job, claim)) = after.and_then(|job| Some((job, claim_of(job)?))) {
            self.claims.entry(claim).or_default().insert(job.id());
        }
    }
}
