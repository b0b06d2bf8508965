//! A memory store that counts its transactions, and holds, breaks or loses them at the test's
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

pub(crate) struct Watched {
    pub(crate) memory: Arc<Memory>,
    pub(crate) clock: Arc<ManualClock>,
    random: Arc<SeededRandom>,
    recording: Mutex<Recording>,
    turned: Condvar,
}

#[derive(Default)]
struct Recording {
    held: bool,
    /// How many transactions may end although the others are held.
    passes: usize,
    begun: Vec<Vec<Request>>,
    ended: usize,
    /// How every transaction after so many fails.
    fault: Option<(usize, fn() -> StoreError)>,
    /// Jobs that cannot be read any more.
    damaged: Vec<JobId>,
}

impl Watched {
    pub(crate) fn new() -> Arc<Self> {
        let clock = Arc::new(ManualClock::at(Timestamp::from_unix_ms(1_800_000_000_000)));
        let random = Arc::new(SeededRandom::new(1));
        Arc::new(Watched {
            memory: Arc::new(Memory::new(clock.clone(), random.clone())),
            clock,
            random,
            recording: Mutex::new(Recording::default()),
            turned: Condvar::new(),
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
        self.recording().held = true;
    }

    pub(crate) fn let_go(&self) {
        self.recording().held = false;
        self.turned.notify_all();
    }

    /// Lets one held transaction end.
    pub(crate) fn let_one_go(&self) {
        self.recording().passes += 1;
        self.turned.notify_all();
    }

    /// Fails every transaction from now on, before it does anything.
    pub(crate) fn fail(&self, fault: fn() -> StoreError) {
        self.fail_after(0, fault);
    }

    /// Fails every transaction after so many more.
    pub(crate) fn fail_after(&self, more: usize, fault: fn() -> StoreError) {
        let mut recording = self.recording();
        recording.fault = Some((recording.begun.len() + more, fault));
    }

    /// Fails every transaction from now on that touches this job.
    pub(crate) fn damage(&self, id: JobId) {
        self.recording().damaged.push(id);
    }

    /// Waits until so many transactions have begun.
    pub(crate) fn begun(&self, count: usize) {
        drop(self.until(|recording| recording.begun.len() >= count));
    }

    /// Waits until so many transactions have ended.
    pub(crate) fn ended(&self, count: usize) {
        drop(self.until(|recording| recording.ended >= count));
    }

    /// All transactions that have begun so far.
    pub(crate) fn batches(&self) -> Vec<Vec<Request>> {
        self.recording().begun.clone()
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

    fn until(&self, reached: impl Fn(&Recording) -> bool) -> MutexGuard<'_, Recording> {
        let mut recording = self.recording();
        while !reached(&recording) {
            recording =
                self.turned.wait(recording).expect("nothing panics with the recording in hand");
        }
        recording
    }

    fn recording(&self) -> MutexGuard<'_, Recording> {
        self.recording.lock().expect("nothing panics with the recording in hand")
    }

    /// Whether a transaction may go on.
    fn begin(&self, batch: &[Request]) -> Result<(), StoreError> {
        self.recording().begun.push(batch.to_vec());
        self.turned.notify_all();
        let mut recording = self.until(|recording| !recording.held || recording.passes > 0);
        recording.passes = recording.passes.saturating_sub(1);
        let fault = recording.fault.filter(|(after, _)| recording.begun.len() > *after);
        let touches = |id: &JobId| batch.iter().any(|request| commands(request) == Some(*id));
        let damaged = recording.damaged.iter().any(touches);
        drop(recording);
        if names(batch, "panic") {
            panic!("the store was told to");
        }
        if names(batch, "large") {
            return Err(StoreError::Full(None));
        }
        if let Some((_, fault)) = fault {
            return Err(fault());
        }
        if damaged || names(batch, "damaged") {
            return Err(StoreError::Damaged(None));
        }
        Ok(())
    }
}

/// The job that a command is about.
fn commands(request: &Request) -> Option<JobId> {
    let Request::Job { id, .. } = request else { return None };
    Some(*id)
}

/// Whether the batch submits a job of this type.
fn names(batch: &[Request], job_type: &str) -> bool {
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

impl Execute for Watched {
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
        self.turned.notify_all();
        replies
    }
}
