//! A store in memory that counts its transactions, and holds, breaks or loses them as a test likes.
//!
//! With the locks of `store::sync`, so that the tests under shuttle can use it as well.

use async_trait::async_trait;
use engine::{
    ApiKey, AuditEntry, ClaimId, Event, HistoryEntry, Intake, Job, JobDraft, JobId, JobType,
    JsonText, PAYLOAD_BYTES_MAX, Policy, Scope, SigningKey, Surroundings, Tenant, Timestamp, Wish,
    WorkerId,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use store::{
    Clock, Dice, HandClock, Memory, NumberedEvent, Overdue, Page, PoisonCounts, Query, QueueDepth,
    Reply, Request, SeededDice, Store, StoreError, Upcoming, WorkerSeen,
    sync::{Condvar, Mutex, MutexGuard},
};

pub(crate) struct Watched {
    memory: Memory,
    pub(crate) clock: Arc<HandClock>,
    dice: Arc<SeededDice>,
    diary: Mutex<Diary>,
    turned: Condvar,
}

#[derive(Default)]
struct Diary {
    held: bool,
    /// How many may end although the others are held.
    passes: usize,
    begun: Vec<Vec<Request>>,
    ended: usize,
    /// How every transaction after so many fails.
    fault: Option<(usize, fn() -> StoreError)>,
    /// Jobs that cannot be read any more.
    damaged: Vec<JobId>,
    policies_read: usize,
}

impl Watched {
    pub(crate) fn new() -> Arc<Self> {
        let clock = Arc::new(HandClock::at(Timestamp::from_unix_ms(1_800_000_000_000)));
        let dice = Arc::new(SeededDice::new(1));
        Arc::new(Watched {
            memory: Memory::new(clock.clone(), dice.clone()),
            clock,
            dice,
            diary: Mutex::new(Diary::default()),
            turned: Condvar::new(),
        })
    }

    /// Lets transactions begin, but not end.
    pub(crate) fn hold(&self) {
        self.diary().held = true;
    }

    pub(crate) fn let_go(&self) {
        self.diary().held = false;
        self.turned.notify_all();
    }

    /// Lets the next one end, and no other.
    pub(crate) fn let_one_go(&self) {
        self.diary().passes += 1;
        self.turned.notify_all();
    }

    /// Lets every transaction fail from now on, before anything is done.
    pub(crate) fn fail(&self, fault: fn() -> StoreError) {
        self.fail_after(0, fault);
    }

    /// Lets every transaction after so many more fail.
    pub(crate) fn fail_after(&self, more: usize, fault: fn() -> StoreError) {
        let mut diary = self.diary();
        diary.fault = Some((diary.begun.len() + more, fault));
    }

    /// Lets every transaction fail from now on that touches this job.
    pub(crate) fn damage(&self, id: JobId) {
        self.diary().damaged.push(id);
    }

    /// Waits until so many transactions have begun.
    pub(crate) fn begun(&self, count: usize) {
        drop(self.until(|diary| diary.begun.len() >= count));
    }

    /// Waits until so many transactions have ended.
    pub(crate) fn ended(&self, count: usize) {
        drop(self.until(|diary| diary.ended >= count));
    }

    /// How often somebody asked for the policies.
    pub(crate) fn policies_read(&self) -> usize {
        self.diary().policies_read
    }

    /// Every transaction that has begun so far.
    pub(crate) fn batches(&self) -> Vec<Vec<Request>> {
        self.diary().begun.clone()
    }

    /// A submit of so many jobs.
    pub(crate) fn submit(&self, job_type: &str, count: usize) -> Request {
        let draft = JobDraft { job_type: job_type.into(), ..JobDraft::default() };
        Request::Submit((0..count).map(|_| self.new_job(draft.clone())).collect())
    }

    pub(crate) fn new_job(&self, draft: JobDraft) -> engine::NewJob {
        let intake = Intake {
            id: JobId::new(self.clock.read().wall, self.dice.roll()),
            tenant: Tenant::default_tenant(),
            chance: self.dice.roll(),
            payload_bytes_max: PAYLOAD_BYTES_MAX,
        };
        draft.check(intake).expect("lawful")
    }

    fn until(&self, reached: impl Fn(&Diary) -> bool) -> MutexGuard<'_, Diary> {
        let mut diary = self.diary();
        while !reached(&diary) {
            diary = self.turned.wait(diary).expect("nothing panics with the diary in hand");
        }
        diary
    }

    fn diary(&self) -> MutexGuard<'_, Diary> {
        self.diary.lock().expect("nothing panics with the diary in hand")
    }

    /// Whether a transaction may go on.
    fn begin(&self, batch: &[Request]) -> Result<(), StoreError> {
        self.diary().begun.push(batch.to_vec());
        self.turned.notify_all();
        let mut diary = self.until(|diary| !diary.held || diary.passes > 0);
        diary.passes = diary.passes.saturating_sub(1);
        let fault = diary.fault.filter(|(after, _)| diary.begun.len() > *after);
        let touches = |id: &JobId| batch.iter().any(|request| commands(request) == Some(*id));
        let damaged = diary.damaged.iter().any(touches);
        drop(diary);
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

/// Whether a job of this type is handed over.
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

pub(crate) fn wish(claim: &str, job_types: &[&str], max: usize) -> Wish {
    Wish {
        worker: WorkerId::parse("w1").expect("lawful"),
        host: None,
        claim: ClaimId::parse(claim).expect("lawful"),
        job_types: job_types.iter().map(|name| job_type(name)).collect(),
        max,
        lease: None,
    }
}

#[async_trait]
impl Store for Watched {
    async fn execute(&self, batch: Vec<Request>) -> Result<Vec<Reply>, StoreError> {
        let replies = match self.begin(&batch) {
            Ok(()) => self.memory.execute(batch).await,
            Err(error) => Err(error),
        };
        self.diary().ended += 1;
        self.turned.notify_all();
        replies
    }

    async fn job(&self, scope: &Scope, id: JobId) -> Result<Option<Job>, StoreError> {
        self.memory.job(scope, id).await
    }

    async fn payload(&self, scope: &Scope, id: JobId) -> Result<Option<JsonText>, StoreError> {
        self.memory.payload(scope, id).await
    }

    async fn history(
        &self,
        scope: &Scope,
        id: JobId,
        after: u64,
    ) -> Result<Vec<HistoryEntry>, StoreError> {
        self.memory.history(scope, id, after).await
    }

    async fn announced(
        &self,
        scope: &Scope,
        id: JobId,
        after: u64,
    ) -> Result<Vec<Event>, StoreError> {
        self.memory.announced(scope, id, after).await
    }

    async fn list(&self, query: &Query) -> Result<Page, StoreError> {
        self.memory.list(query).await
    }

    async fn queues(&self, scope: &Scope) -> Result<Vec<QueueDepth>, StoreError> {
        self.memory.queues(scope).await
    }

    async fn poison_counts(
        &self,
        scope: &Scope,
        job_type: Option<&JobType>,
    ) -> Result<PoisonCounts, StoreError> {
        self.memory.poison_counts(scope, job_type).await
    }

    async fn workers(&self, scope: &Scope) -> Result<Vec<WorkerSeen>, StoreError> {
        self.memory.workers(scope).await
    }

    async fn policies(&self) -> Result<BTreeMap<JobType, Policy>, StoreError> {
        self.diary().policies_read += 1;
        self.memory.policies().await
    }

    async fn settings_version(&self) -> Result<u64, StoreError> {
        self.memory.settings_version().await
    }

    async fn pauses(&self) -> Result<BTreeSet<(JobType, Scope)>, StoreError> {
        self.memory.pauses().await
    }

    async fn keys(&self) -> Result<Vec<ApiKey>, StoreError> {
        self.memory.keys().await
    }

    async fn keys_of(&self, scope: &Scope) -> Result<Vec<ApiKey>, StoreError> {
        self.memory.keys_of(scope).await
    }

    async fn signing_keys(&self) -> Result<Vec<SigningKey>, StoreError> {
        self.memory.signing_keys().await
    }

    async fn audit(
        &self,
        scope: &Scope,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        self.memory.audit(scope, before, limit).await
    }

    async fn surroundings(
        &self,
        scope: &Scope,
        id: JobId,
    ) -> Result<Option<(Job, Surroundings)>, StoreError> {
        self.memory.surroundings(scope, id).await
    }

    async fn overdue(&self, limit: usize) -> Result<Vec<Overdue>, StoreError> {
        self.memory.overdue(limit).await
    }

    async fn next_due(&self, after: Timestamp) -> Result<Upcoming, StoreError> {
        self.memory.next_due(after).await
    }

    async fn number_events(&self, limit: usize) -> Result<usize, StoreError> {
        self.memory.number_events(limit).await
    }

    async fn events(&self, after: u64, limit: usize) -> Result<Vec<NumberedEvent>, StoreError> {
        self.memory.events(after, limit).await
    }

    async fn tidy(&self, limit: usize) -> Result<usize, StoreError> {
        self.memory.tidy(limit).await
    }
}
