//! The simulation: producers, workers, operators, a sweeper, a clock, and a store that fails.
//!
//! One step is one act of one of them, chosen by the step's own random stream. The auditor gets
//! what the actor sent and received, and then reads for itself.

use crate::{
    audit::{AuditResult, Auditor},
    backend::{Backend, StoreKind},
    flaky::{Fault, Flaky},
    operator, producer,
    rng::Rng,
    scheduler, shared_batch,
    sim_clock::SimClock,
    worker::{self, Worker},
};
use engine::{Jitter, JobType, Policy, PolicyDraft, Scope, Tenant};
use platform::{Platform, Settings, Writes};
use std::{collections::BTreeMap, sync::Arc};
use store::{Execute, Memory, Notification, Overdue, Request, SeededRandom, Store};

/// The longest `retryAfterSeconds` that handlers of this simulation ask for.
pub(crate) const RETRY_AFTER_MAX_S: u64 = 40;

pub(crate) struct Simulation {
    pub(crate) platform: Platform,
    pub(crate) store: Arc<Flaky>,
    pub(crate) clock: Arc<SimClock>,
    pub(crate) random: Arc<SeededRandom>,
    pub(crate) auditor: Auditor,
    pub(crate) tenants: Vec<Tenant>,
    pub(crate) job_types: Vec<JobType>,
    pub(crate) workers: Vec<Worker>,
    /// Overdue jobs that a sweeper has read and not moved yet.
    overdue: Vec<Overdue>,
    /// Whether there are few jobs, and workers release nearly all of them.
    pub(crate) mostly_releases: bool,
    /// How many of a hundred transactions fail.
    fault_percent: usize,
    pub(crate) keys: usize,
    /// How many names were used, so that no two claims share one.
    pub(crate) names_used: usize,
    /// A line for each event, where a test prints them.
    pub(crate) trace: Option<Vec<String>>,
}

impl Simulation {
    pub(crate) fn new(store_kind: StoreKind, seed: u64, traced: bool) -> Self {
        let mut rng = Rng::new(seed);
        let clock = Arc::new(SimClock::new());
        let random = Arc::new(SeededRandom::new(seed ^ 0xD1CE));
        let backend = Backend::new(store_kind, &clock, random.clone());
        let store = Arc::new(Flaky::new(backend, store_kind.mistake()));
        let platform = platform_over(&store, store.store(), &clock, &random);
        let tenants = names(["acme", "birch", "cedar"], 1 + rng.below(3), Tenant::parse);
        let job_types = names(["email", "invoice", "scan"], 1 + rng.below(3), JobType::parse);
        let mut policies = BTreeMap::new();
        for job_type in &job_types {
            policies.insert(job_type.clone(), policy(&platform, job_type, &mut rng));
        }
        let workers = (0..2 + rng.below(4)).map(|n| Worker::new(n, &tenants, &job_types, &mut rng));
        let workers = workers.collect();
        Simulation {
            platform,
            store,
            clock,
            random,
            auditor: Auditor::new(policies),
            tenants,
            job_types,
            workers,
            overdue: Vec::new(),
            mostly_releases: rng.chance(10),
            fault_percent: [0, 3, 10, 25][rng.below(4)],
            keys: 1 + rng.below(6),
            names_used: 0,
            trace: traced.then(Vec::new),
        }
    }

    /// One act of one actor, and the auditor's verdict on it.
    pub(crate) fn step(&mut self, index: usize, rng: &mut Rng) -> AuditResult {
        if rng.chance(70) {
            self.clock.advance(rng.between(0, if self.mostly_releases { 200 } else { 3_000 }));
        }
        let skew = [0, 0, 600_000, -600_000][rng.below(4)];
        self.clock.set_caller_skew(skew);
        self.auditor.begin(index, self.clock.latest_possible());
        let fault = self.fault(rng);
        self.store.fail_next(fault);
        match rng.below(100) {
            // Only this releases one job more than twenty times.
            0..98 if self.mostly_releases && rng.chance(80) => {
                worker::claim_and_release(self, rng)?
            }
            0..18 => producer::submit(self, rng)?,
            18..20 => scheduler::act(self, rng)?,
            20..25 => shared_batch::act(self, rng)?,
            25..80 => worker::act(self, rng)?,
            80..88 => self.sweep()?,
            88..90 => self.late_sweep()?,
            90..96 => operator::act(self, rng)?,
            96..98 => self.disturb_time(rng),
            _ => self.restart(rng),
        }
        self.store.fail_next(Fault::None);
        if fault != Fault::None || index.is_multiple_of(25) {
            return self.auditor.audit_whole(&self.platform);
        }
        self.auditor.audit_step_end(&self.platform)
    }

    fn fault(&self, rng: &mut Rng) -> Fault {
        if !rng.chance(self.fault_percent) {
            return Fault::None;
        }
        [Fault::NotCommitted, Fault::UnknownButDone, Fault::UnknownNotDone][rng.below(3)]
    }

    pub(crate) fn sweep(&mut self) -> AuditResult {
        let swept = pollster::block_on(self.platform.sweep());
        self.log(|| format!("sweep: {swept:?}"));
        match swept {
            Ok(swept) => swept.jobs.into_iter().for_each(|id| self.auditor.touch(id)),
            Err(_) => self.auditor.touch_everything(),
        }
        self.auditor.read_touched(&self.platform)
    }

    /// The sweeper paused between finding jobs and moving them, and goes on as if nothing had
    /// happened since.
    fn late_sweep(&mut self) -> AuditResult {
        let overdue = std::mem::take(&mut self.overdue);
        let request = |overdue: Overdue| Request::Command {
            scope: Scope::All,
            id: overdue.id,
            command: overdue.command,
        };
        overdue.iter().for_each(|overdue| self.auditor.touch(overdue.id));
        let requests = overdue.into_iter().map(request).collect();
        let answer = self.store.execute(requests, Notification::default());
        self.log(|| format!("a late sweep: {:?}", answer.map(|replies| replies.len())));
        self.overdue =
            pollster::block_on(self.store.store().overdue(5)).expect("reads do not fail");
        self.auditor.read_touched(&self.platform)
    }

    fn disturb_time(&mut self, rng: &mut Rng) {
        let ms = match rng.below(4) {
            0 => rng.between(1_000, 3_600_000),
            1 => -rng.between(1_000, 3_600_000),
            2 => return self.clock.advance(rng.between(10_000, 90_000)),
            _ => return self.clock.advance(rng.between(90_000, 1_200_000)),
        };
        self.log(|| format!("the wall clock is set by {ms} ms"));
        self.clock.set_off(ms);
    }

    /// The process is down for a while. Its workers run on, but reach no server.
    fn restart(&mut self, rng: &mut Rng) {
        let down_ms = if rng.chance(50) { 0 } else { rng.between(0, 600_000) };
        self.log(|| format!("the process dies and comes back after {down_ms} ms"));
        self.clock.advance(down_ms);
        // The platform drops the store first: the next process needs the file for itself.
        let placeholder = Arc::new(Memory::new(self.clock.clone(), self.random.clone()));
        self.platform = platform_over(&self.store, placeholder, &self.clock, &self.random);
        self.store.restart();
        self.platform = platform_over(&self.store, self.store.store(), &self.clock, &self.random);
        self.auditor.reset_fairness();
    }

    /// Faults stop, and all actors behave: every job must come to an end.
    pub(crate) fn run_to_end(&mut self, steps: usize) -> AuditResult {
        self.store.fail_next(Fault::None);
        self.clock.set_caller_skew(0);
        operator::resume_everything(self);
        for round in 0..FINALE_ROUNDS_MAX {
            self.auditor.begin(steps + round, self.clock.latest_possible());
            self.sweep()?;
            self.auditor.begin(steps + round, self.clock.latest_possible());
            worker::do_everything(self)?;
            if self.auditor.audit_all_ended().is_ok() {
                break;
            }
            self.clock.advance(30_000);
        }
        self.auditor.audit_all_ended()?;
        self.auditor.begin(steps + FINALE_ROUNDS_MAX, self.clock.latest_possible());
        self.auditor.audit_whole(&self.platform)
    }

    pub(crate) fn log(&mut self, what: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(what());
        }
    }

    pub(crate) fn new_name(&mut self, prefix: &str) -> String {
        self.names_used += 1;
        format!("{prefix}{}", self.names_used)
    }
}

/// The verbs of one process: batches may fail, reads do not.
fn platform_over(
    batches: &Arc<Flaky>,
    store: Arc<dyn Store>,
    clock: &Arc<SimClock>,
    random: &Arc<SeededRandom>,
) -> Platform {
    let writes = Writes::Direct(batches.clone());
    Platform::with_writes(writes, store, clock.clone(), random.clone(), Settings::default())
}

/// Half an hour of retries, in rounds of thirty seconds, and some more.
const FINALE_ROUNDS_MAX: usize = 120;

fn names<T>(all: [&str; 3], count: usize, parse: fn(&str) -> engine::Checked<T>) -> Vec<T> {
    all.into_iter().take(count).map(|name| parse(name).expect("a lawful name")).collect()
}

/// A policy with short times, so that one run sees keys expire and old jobs be deleted.
fn policy(platform: &Platform, job_type: &JobType, rng: &mut Rng) -> Policy {
    let draft = PolicyDraft {
        max_attempts: Some(rng.between(1, 4)),
        lease_ms: Some(rng.between(5, 30) * 1_000),
        timeout_ms: Some(rng.between(20, 90) * 1_000),
        backoff_base_ms: Some(rng.between(0, 3) * 1_000),
        backoff_max_ms: Some(rng.between(5, 20) * 1_000),
        jitter: Some([Jitter::Full, Jitter::None, Jitter::Equal][rng.below(3)]),
        lost_workers_max: Some(rng.between(1, 3)),
        key_window_ms: Some(rng.between(10, 300) * 1_000),
        retention_ms: Some(rng.between(60, 1_200) * 1_000),
        max_queued: rng.chance(10).then(|| rng.between(2, 8)),
        ..PolicyDraft::default()
    };
    pollster::block_on(platform.set_policy(job_type.clone(), &draft, None)).expect("a good policy")
}
