//! A memory store that records its transactions, and holds them up or fails them at the test's
//! request.
//!
//! It takes its locks from `store::sync`, so that the tests under shuttle can use it as well.

use engine::{
    ClaimId, ClaimRequest, JobDraft, JobId, JobType, PAYLOAD_BYTES_MAX, SubmitContext, Tenant,
    Timestamp, WorkerId,
};
use platform::{Platform, Settings, Writes};
use std::sync::Arc;
use store::{
    Clock, Execute, ManualClock, Memory, Notification, RandomSource, Reply, Request, SeededRandom,
    StoreError,
    sync::{Condvar, Mutex, MutexGuard},
};

pub(crate) struct ControlledStore {
    pub(crate) memory: Arc<Memory>,
    pub(crate) clock: Arc<ManualClock>,
    random: Arc<SeededRandom>,
    recording: Mutex<Recording>,
    changed: Condvar,
}

#[derive(Default)]
struct Recording {
    is_held: bool,
    /// How many transactions may end although the others are held.
    passes: usize,
    batches: Vec<Vec<Request>>,
    ended: usize,
    /// How every transaction after so many fails.
    fault: Option<(usize, fn() -> StoreError)>,
    /// Jobs that cannot be read any more.
    damaged: Vec<JobId>,
}

impl ControlledStore {
    pub(crate) fn new() -> Arc<Self> {
        let clock = Arc::new(ManualClock::at(Timestamp::from_unix_ms(1_800_000_000_000)));
        let random = Arc::new(SeededRandom::new(1));
        Arc::new(ControlledStore {
            memory: Arc::new(Memory::new(clock.clone(), random.clone())),
            clock,
            random,
            recording: Mutex::new(Recording::default()),
            changed: Condvar::new(),
        })
    }

    /// The verbs over this store: batches pass through it, reads go to the memory store.
    pub(crate) fn platform(self: &Arc<Self>, settings: Settings) -> Platform {
        let random = Arc::new(SeededRandom::new(2));
        let writes = Writes::Direct(self.clone());
        Platform::with_writes(writes, self.memory.clone(), self.clock.clone(), random, settings)
    }

    /// Lets transactions begin, but not end.
    pub(crate) fn hold(&self) {
        self.recording().is_held = true;
    }

    pub(crate) fn release(&self) {
        self.recording().is_held = false;
        self.changed.notify_all();
    }

    /// Lets one held transaction end.
    pub(crate) fn release_one(&self) {
        self.recording().passes += 1;
        self.changed.notify_all();
    }

    /// Fails every transaction from now on, before it does anything.
    pub(crate) fn fail(&self, fault: fn() -> StoreError) {
        self.fail_after(0, fault);
    }

    /// Fails every transaction after so many more.
    pub(crate) fn fail_after(&self, more: usize, fault: fn() -> StoreError) {
        let mut recording = self.recording();
        recording.fault = Some((recording.batches.len() + more, fault));
    }

    /// Fails every transaction from now on that touches this job.
    pub(crate) fn damage(&self, id: JobId) {
        self.recording().damaged.push(id);
    }

    /// Waits until so many transactions have begun.
    pub(crate) fn wait_begun(&self, count: usize) {
        drop(self.wait_until(|recording| recording.batches.len() >= count));
    }

    /// Waits until so many transactions have ended.
    pub(crate) fn wait_ended(&self, count: usize) {
        drop(self.wait_until(|recording| recording.ended >= count));
    }

    /// All transactions that have begun so far.
    pub(crate) fn batches(&self) -> Vec<Vec<Request>> {
        self.recording().batches.clone()
    }

    /// A submit of so many jobs.
    pub(crate) fn submit(&self, job_type: &str, count: usize) -> Request {
        let draft = JobDraft { job_type: job_type.into(), ..JobDraft::default() };
        Request::Submit((0..count).map(|_| self.new_job(draft.clone())).collect())
    }

    pub(crate) fn new_job(&self, draft: JobDraft) -> engine::NewJob {
        let context = SubmitContext {
            id: JobId::new(self.clock.read().wall, self.random.entropy()),
            tenant: Tenant::default_tenant(),
            entropy: self.random.entropy(),
            payload_bytes_max: PAYLOAD_BYTES_MAX,
        };
        draft.check(context).expect("lawful")
    }

    fn wait_until(&self, reached: impl Fn(&Recording) -> bool) -> MutexGuard<'_, Recording> {
        let mut recording = self.recording();
        while !reached(&recording) {
            recording =
                self.changed.wait(recording).expect("no code panics while it holds the recording");
        }
        recording
    }

    fn recording(&self) -> MutexGuard<'_, Recording> {
        self.recording.lock().expect("no code panics while it holds the recording")
    }

    /// Whether a transaction may go on.
    fn begin(&self, batch: &[Request]) -> Result<(), StoreError> {
        self.recording().batches.push(batch.to_vec());
        self.changed.notify_all();
        let mut recording = self.wait_until(|recording| !recording.is_held || recording.passes > 0);
        recording.passes = recording.passes.saturating_sub(1);
        let fault = recording.fault.filter(|(after, _)| recording.batches.len() > *after);
        let touches = |id: &JobId| batch.iter().any(|request| job_of(request) == Some(*id));
        let damaged = recording.damaged.iter().any(touches);
        drop(recording);
        if submits_type(batch, "panic") {
            panic!("the test wants the store to panic");
        }
        if submits_type(batch, "large") {
            return Err(StoreError::Full(None));
        }
        if let Some((_, fault)) = fault {
            return Err(fault());
        }
        if damaged || submits_type(batch, "damaged") {
            return Err(StoreError::Damaged(None));
        }
        Ok(())
    }
}

/// The job that a command is about.
fn job_of(request: &Request) -> Option<JobId> {
    let Request::Command { id, .. } = request else { return None };
    Some(*id)
}

/// Whether the batch submits a job of this type.
fn submits_type(batch: &[Request], job_type: &str) -> bool {
    let named = |request: &Request| {
        let Request::Submit(jobs) = request else { return false };
        jobs.iter().any(|job| job.job_type.as_str() == job_type)
    };
    batch.iter().any(named)
}

pub(crate) fn job_type(name: &str) -> JobType {
    JobType::parse(name).expect("lawful")
}

pub(crate) fn claim_request(claim: &str, job_types: &[&str], max: usize) -> ClaimRequest {
    ClaimRequest {
        worker: WorkerId::parse("w1").expect("lawful"),
        host: None,
        claim: ClaimId::parse(claim).expect("lawful"),
        job_types: job_types.iter().map(|name| job_type(name)).collect(),
        max,
        lease: None,
    }
}

impl Execute for ControlledStore {
    fn execute(
        &self,
        batch: Vec<Request>,
        notification: Notification,
    ) -> Result<Vec<Reply>, StoreError> {
        let replies = match self.begin(&batch) {
            Ok(()) => self.memory.execute(batch, notification),
            Err(error) => Err(error),
        };
        self.recording().ended += 1;
        self.changed.notify_all();
        replies
    }
}
