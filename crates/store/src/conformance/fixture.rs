//! The fixture of the conformance suite: a store under test, its clock, and short names for
//! frequent steps.

use crate::{
    Answer, Claimed, Clock, Cursor, ManualClock, Notification, Page, Query, QueueDepth,
    RandomSource, Reply, Request, SeededRandom, Store,
};
use engine::{
    ClaimId, ClaimRequest, Command, EndingDraft, Filter, HistoryEntry, Job, JobDraft, JobId,
    JobType, LeaseState, LeaseToken, NewJob, Outcome, PAYLOAD_BYTES_MAX, Policy, Refusal, Scope,
    Status, SubmitContext, Submitted, Tenant, WorkerId,
};
use pollster::block_on;
use std::{
    sync::{Arc, RwLock},
    time::Duration,
};

/// An empty store, and the controls of its environment.
pub(crate) struct Fixture {
    pub(crate) open: Arc<OpenStore>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) random: Arc<SeededRandom>,
    /// Simulates the end of the process and its next start.
    pub(crate) restart: Box<dyn Fn()>,
    /// Backs the store up and restores it as another store with the same jobs.
    pub(crate) restored: Box<dyn Fn() -> Arc<dyn Store>>,
}

/// A store that can be closed and reopened.
pub(crate) struct OpenStore(RwLock<Option<Arc<dyn Store>>>);

impl OpenStore {
    pub(crate) fn new(store: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(OpenStore(RwLock::new(Some(store))))
    }

    /// Closes the store, and only then opens the next one: both may want the same file.
    pub(crate) fn reopen(&self, open: impl FnOnce() -> Arc<dyn Store>) {
        let mut store =
            self.0.write().expect("no thread panics while it holds the lock on the store");
        drop(store.take());
        *store = Some(open());
    }

    fn get(&self) -> Arc<dyn Store> {
        let store = self.0.read().expect("no thread panics while it holds the lock on the store");
        store.clone().expect("it is only empty while it is opened again")
    }
}

pub(crate) fn email() -> JobDraft {
    JobDraft { job_type: "email".into(), ..JobDraft::default() }
}

pub(crate) fn keyed(key: &str, payload: &str) -> JobDraft {
    let payload = Some(payload.to_owned());
    JobDraft { idempotency_key: Some(key.into()), payload, ..email() }
}

pub(crate) fn job_type(name: &str) -> JobType {
    JobType::parse(name).expect("lawful")
}

pub(crate) fn tenant(name: &str) -> Tenant {
    Tenant::parse(name).expect("lawful")
}

pub(crate) fn only(name: &str) -> Scope {
    Scope::One(tenant(name))
}

pub(crate) fn ending(word: Outcome) -> EndingDraft {
    EndingDraft::new(word)
}

pub(crate) fn token(claimed: &Claimed) -> LeaseToken {
    claimed.job.lease().expect("a claimed job has a lease").token
}

pub(crate) fn settling(claimed: &Claimed, draft: &EndingDraft) -> Command {
    Command::Settle { token: token(claimed), ending: draft.check().expect("lawful") }
}

pub(crate) fn claim_request(
    worker: &str,
    claim: &str,
    job_types: &[&str],
    max: usize,
) -> ClaimRequest {
    ClaimRequest {
        worker: WorkerId::parse(worker).expect("lawful"),
        host: None,
        claim: ClaimId::parse(claim).expect("lawful"),
        job_types: job_types.iter().map(|name| job_type(name)).collect(),
        max,
        lease: None,
    }
}

pub(crate) fn claiming(claim_request: ClaimRequest) -> Request {
    Request::Claim { scope: Scope::All, claim_request }
}

impl Fixture {
    /// The store that is open now.
    pub(crate) fn store(&self) -> Arc<dyn Store> {
        self.open.get()
    }

    pub(crate) fn pass(&self, seconds: u64) {
        self.clock.pass(Duration::from_secs(seconds));
    }

    pub(crate) fn new_job(&self, draft: JobDraft, owner: &str) -> NewJob {
        // The caller's clock dates ids, as in production: ids only have to differ.
        let context = SubmitContext {
            id: JobId::new(self.clock.read().wall, self.random.entropy()),
            tenant: tenant(owner),
            entropy: self.random.entropy(),
            payload_bytes_max: PAYLOAD_BYTES_MAX,
        };
        draft.check(context).expect("a lawful draft")
    }

    pub(crate) fn run(&self, batch: Vec<Request>) -> Vec<Reply> {
        self.store().execute(batch, Notification::default()).expect("the store works")
    }

    pub(crate) fn one(&self, request: Request) -> Reply {
        self.run(vec![request]).pop().expect("one reply for one request")
    }

    pub(crate) fn try_submit(&self, draft: JobDraft) -> Result<Submitted, Refusal> {
        self.try_submit_as(draft, "default")
    }

    pub(crate) fn try_submit_as(&self, draft: JobDraft, owner: &str) -> Result<Submitted, Refusal> {
        let answer = self.one(Request::Submit(vec![self.new_job(draft, owner)]))?;
        Ok(submitted(answer).pop().expect("one answer for one job"))
    }

    pub(crate) fn submit(&self, draft: JobDraft) -> JobId {
        self.try_submit(draft).expect("the store accepts it").job_id
    }

    pub(crate) fn submit_as(&self, draft: JobDraft, owner: &str) -> JobId {
        self.try_submit_as(draft, owner).expect("the store accepts it").job_id
    }

    /// Submits `count` jobs of the type `email`.
    pub(crate) fn submit_many(&self, count: usize, owner: &str) {
        let jobs = (0..count).map(|_| self.new_job(email(), owner)).collect();
        self.one(Request::Submit(jobs)).expect("the store accepts them");
    }

    pub(crate) fn claim(&self, claim_request: ClaimRequest) -> Vec<Claimed> {
        self.claim_as(Scope::All, claim_request)
    }

    pub(crate) fn claim_as(&self, scope: Scope, claim_request: ClaimRequest) -> Vec<Claimed> {
        match self.one(Request::Claim { scope, claim_request }) {
            Ok(Answer::Claimed(jobs)) => jobs,
            other => panic!("a claim is answered as one, not by {other:?}"),
        }
    }

    /// Claims one job of the type `email` under a new claim name.
    pub(crate) fn take(&self) -> Claimed {
        self.take_from("email")
    }

    pub(crate) fn take_from(&self, job_type: &str) -> Claimed {
        let name = format!("c{}", self.random.entropy().0);
        let mut jobs = self.claim(claim_request("w1", &name, &[job_type], 1));
        jobs.pop().expect("a job is due")
    }

    pub(crate) fn command(&self, id: JobId, command: Command) -> Result<engine::Answer, Refusal> {
        match self.one(Request::Command { scope: Scope::All, id, command })? {
            Answer::Job(answer) => Ok(answer),
            other => panic!("a command is answered as one, not by {other:?}"),
        }
    }

    /// Applies a command that must not be refused.
    pub(crate) fn must(&self, id: JobId, command: Command) -> engine::Answer {
        self.command(id, command).expect("lawful")
    }

    pub(crate) fn settle(&self, claimed: &Claimed, draft: &EndingDraft) -> Result<Status, Refusal> {
        match self.command(claimed.job.id(), settling(claimed, draft))? {
            engine::Answer::Settled { status, .. } => Ok(status),
            other => panic!("a settle is answered as one, not by {other:?}"),
        }
    }

    pub(crate) fn complete(&self, claimed: &Claimed) -> Result<Status, Refusal> {
        self.settle(claimed, &ending(Outcome::Completed))
    }

    pub(crate) fn fail(&self, claimed: &Claimed) -> Result<Status, Refusal> {
        let draft = EndingDraft { retry_after_seconds: Some(0), ..ending(Outcome::Failed) };
        self.settle(claimed, &draft)
    }

    pub(crate) fn poison(&self, claimed: &Claimed) {
        let poisoned = self.settle(claimed, &ending(Outcome::Poisoned));
        assert_eq!(poisoned, Ok(Status::Poisoned));
    }

    pub(crate) fn beat(&self, claimed: &Claimed) -> LeaseState {
        let beat = Command::Heartbeat { token: token(claimed), progress: None };
        match self.must(claimed.job.id(), beat) {
            engine::Answer::LeaseState(lease_state) => lease_state,
            other => panic!("a heartbeat is answered as one, not by {other:?}"),
        }
    }

    pub(crate) fn redrive(&self, id: JobId) {
        self.must(id, Command::redrive());
    }

    pub(crate) fn job(&self, id: JobId) -> Job {
        self.find(id).expect("the job exists")
    }

    pub(crate) fn find(&self, id: JobId) -> Option<Job> {
        block_on(self.store().job(&Scope::All, id)).expect("the store works")
    }

    pub(crate) fn status(&self, id: JobId) -> Status {
        self.job(id).status()
    }

    pub(crate) fn history(&self, id: JobId) -> Vec<HistoryEntry> {
        block_on(self.store().history(&Scope::All, id, 0)).expect("the store works")
    }

    pub(crate) fn list(&self, filter: Filter) -> Vec<JobId> {
        self.page(filter, None, 1_000).jobs.iter().map(Job::id).collect()
    }

    pub(crate) fn page(&self, filter: Filter, before: Option<Cursor>, limit: usize) -> Page {
        let query = Query { scope: Scope::All, filter, before, limit };
        block_on(self.store().list(&query)).expect("the store works")
    }

    pub(crate) fn depth(&self, name: &str) -> QueueDepth {
        let queues = block_on(self.store().queues(&Scope::All)).expect("the store works");
        let mut queues = queues.into_iter().filter(|depth| depth.queue.job_type.as_str() == name);
        queues.next().expect("the queue is listed")
    }

    /// Finds overdue jobs and applies their commands, as the sweeper does.
    pub(crate) fn sweep(&self) -> Vec<JobId> {
        let overdue = block_on(self.store().overdue(100)).expect("the store works");
        overdue.iter().for_each(|late| drop(self.command(late.id, late.command.clone())));
        overdue.into_iter().map(|late| late.id).collect()
    }

    pub(crate) fn prune_leftovers(&self, limit: usize) -> usize {
        block_on(self.store().prune_leftovers(limit)).expect("the store works")
    }

    pub(crate) fn set_policy(&self, name: &str, policy: Policy) {
        let set = self.one(Request::set_policy(&job_type(name), &policy));
        assert_eq!(set, Ok(Answer::Done));
    }
}

pub(crate) fn submitted(answer: Answer) -> Vec<Submitted> {
    match answer {
        Answer::Submitted(all) => all,
        other => panic!("a submit is answered as one, not by {other:?}"),
    }
}
