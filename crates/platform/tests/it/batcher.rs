//! The batcher: which callers share a commit, which wait, and what happens when callers leave.

use crate::controlled_store::{ControlledStore, claim_request, job_type};
use engine::{Job, JobDraft, JobId, Scope, Status, WorkerId};
use platform::{Batcher, ClaimWait, Limits, Platform, Settings, Writes};
use pollster::block_on;
use std::{
    pin::{Pin, pin},
    sync::{Arc, mpsc},
    task::{Context, Poll, Wake, Waker},
    thread,
    time::Duration,
};
use store::{Answer, Claimed, Reply, Request, Store, StoreError};

struct BatcherFixture {
    store: Arc<ControlledStore>,
    batcher: Batcher,
}

impl BatcherFixture {
    fn new() -> Self {
        BatcherFixture::with(Limits::default())
    }

    fn with(limits: Limits) -> Self {
        let store = ControlledStore::new();
        let batcher = Batcher::start(store.clone(), limits).expect("threads start");
        BatcherFixture { store, batcher }
    }

    /// Executes a request, and waits for its answer.
    fn execute(&self, request: Request) -> Result<Vec<Reply>, StoreError> {
        block_on(self.batcher.execute(vec![request]))
    }

    /// Starts a call while the store is held up.
    fn start_call(&self, request: Request) -> Call<'_> {
        let mut call: Call<'_> = Box::pin(self.batcher.execute(vec![request]));
        assert!(poll(&mut call).is_pending());
        call
    }

    fn submit(&self, name: &str) -> Call<'_> {
        self.start_call(self.store.submit(name, 1))
    }

    /// Stores a job.
    fn job(&self, name: &str) -> JobId {
        submitted(&self.execute(self.store.submit(name, 1)))
    }

    fn claim_waiting(&self, name: &str) -> ClaimWait {
        self.claim_waiting_for(name, &["email"], 1)
    }

    fn claim_waiting_for(&self, name: &str, job_types: &[&str], max: usize) -> ClaimWait {
        self.batcher.claim_waiting(Scope::All, claim_request(name, job_types, max))
    }

    /// A waiting claim that was executed once and got no job.
    fn idle_claim(&self, name: &str, job_types: &[&str], max: usize) -> ClaimWait {
        let before = self.store.batches().len();
        let claim = self.claim_waiting_for(name, job_types, max);
        self.wait_settled(before + 1);
        claim
    }

    /// Waits until so many transactions have ended and their callers are answered.
    fn wait_settled(&self, count: usize) {
        self.store.wait_ended(count);
        // The writer answers before it takes the next batch.
        let heartbeat =
            Request::WorkerAlive { scope: Scope::All, worker: WorkerId::parse("w").unwrap() };
        self.execute(heartbeat).unwrap();
    }

    fn read_job(&self, id: JobId) -> Job {
        block_on(self.store.memory.job(&Scope::All, id)).unwrap().unwrap()
    }

    /// The requests of each transaction, one letter for each. Leaves out heartbeats, which these
    /// tests use only to wait.
    fn batch_letters(&self) -> Vec<String> {
        let batch_text = |batch: &Vec<Request>| batch.iter().map(letter).collect::<String>();
        let batches = self.store.batches();
        batches.iter().map(batch_text).filter(|batch| batch != "l").collect()
    }
}

type Call<'a> = Pin<Box<dyn Future<Output = Result<Vec<Reply>, StoreError>> + Send + 'a>>;

fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

fn letter(request: &Request) -> char {
    match request {
        Request::Submit(_) => 's',
        Request::Command { .. } => 'j',
        Request::Claim { .. } => 'c',
        Request::WorkerAlive { .. } | Request::Leave { .. } => 'l',
        Request::Pause { .. } | Request::Resume { .. } => 'p',
        Request::PutRecord(_) => 'k',
        Request::Audit(_) => 'r',
        Request::All(parts) => parts.first().map_or('r', letter),
    }
}

#[track_caller]
fn submitted(replies: &Result<Vec<Reply>, StoreError>) -> JobId {
    match &replies.as_ref().expect("the store works")[..] {
        [Ok(Answer::Submitted(jobs))] => jobs[0].job_id,
        other => panic!("not one submit: {other:?}"),
    }
}

fn ids(claimed: &[Claimed]) -> Vec<JobId> {
    claimed.iter().map(|claimed| claimed.job.id()).collect()
}

fn heartbeat() -> Request {
    Request::WorkerAlive { scope: Scope::All, worker: WorkerId::parse("reporter").unwrap() }
}

#[test]
fn an_idle_batcher_stores_and_starts_a_job_in_one_commit() {
    let fixture = BatcherFixture::new();
    let claim = fixture.idle_claim("a", &["email"], 1);
    let id = fixture.job("email");
    let claimed = block_on(claim).unwrap();
    assert_eq!(ids(&claimed), [id]);
    assert_eq!(fixture.read_job(id).status(), Status::Running);
    assert_eq!(fixture.batch_letters(), ["c", "sc"]);
}

#[test]
fn requests_during_a_commit_share_the_next_commit() {
    let fixture = BatcherFixture::new();
    fixture.store.hold();
    let first = fixture.submit("email");
    fixture.store.wait_begun(1);
    let others: Vec<_> = (0..64).map(|_| fixture.submit("email")).collect();
    assert_eq!(fixture.batcher.waiting().requests, 64);
    fixture.store.release();
    submitted(&block_on(first));
    let mut ids: Vec<JobId> = others.into_iter().map(|one| submitted(&block_on(one))).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 64, "each has its own answer");
    assert_eq!(fixture.batch_letters(), ["s".to_owned(), "s".repeat(64)]);
    assert_eq!(fixture.batcher.waiting(), platform::Waiting::default());
}

#[test]
fn reports_go_first() {
    let fixture = BatcherFixture::with(Limits { batch_requests_max: 2, ..Limits::default() });
    fixture.store.hold();
    let first = fixture.submit("email");
    fixture.store.wait_begun(1);
    let others =
        [fixture.submit("email"), fixture.submit("email"), fixture.start_call(heartbeat())];
    fixture.store.release();
    block_on(first).unwrap();
    others.into_iter().for_each(|other| drop(block_on(other).unwrap()));
    assert_eq!(fixture.batch_letters(), ["s", "ls", "s"]);
}

#[test]
fn requests_of_one_call_stay_together_in_their_order() {
    let fixture = BatcherFixture::with(Limits { batch_requests_max: 2, ..Limits::default() });
    let all = vec![fixture.store.submit("email", 1), heartbeat(), fixture.store.submit("email", 2)];
    let replies = block_on(fixture.batcher.execute(all)).unwrap();
    assert!(matches!(
        &replies[..],
        [Ok(Answer::Submitted(one)), Ok(Answer::Done), Ok(Answer::Submitted(two))]
            if one.len() == 1 && two.len() == 2
    ));
    assert_eq!(fixture.batch_letters(), ["sls"], "a call above the limits is a batch of its own");
    assert_eq!(block_on(fixture.batcher.execute(Vec::new())).unwrap(), []);
}

#[test]
fn callers_above_the_byte_limit_wait_in_order() {
    const BYTES_MAX: usize = 10_000;
    let fixture =
        BatcherFixture::with(Limits { waiting_bytes_max: BYTES_MAX, ..Limits::default() });
    fixture.store.hold();
    let first = fixture.submit("email");
    fixture.store.wait_begun(1);
    let mut calls: Vec<_> = (0..50).map(|_| fixture.submit("email")).collect();
    let waiting = fixture.batcher.waiting();
    assert!(waiting.bytes <= BYTES_MAX && waiting.requests > 1, "{waiting:?}");
    assert_eq!(waiting.requests + waiting.overflow, 50);
    drop(calls.pop());
    assert_eq!(
        fixture.batcher.waiting().overflow,
        waiting.overflow - 1,
        "the call of a caller that left is dropped"
    );
    drop(calls.remove(0));
    assert_eq!(fixture.batcher.waiting().requests, waiting.requests, "an admitted request stays");
    fixture.store.release();
    block_on(first).unwrap();
    let answered: Vec<JobId> = calls.into_iter().map(|call| submitted(&block_on(call))).collect();
    let stored: Vec<JobId> = fixture.store.batches().concat().iter().map(id_of).collect();
    assert_eq!(stored[2..], answered, "in the order in which they came");
}

fn id_of(request: &Request) -> JobId {
    let Request::Submit(jobs) = request else { panic!("not a submit: {request:?}") };
    jobs[0].id
}

#[test]
fn only_the_damaged_request_of_a_batch_fails() {
    let fixture = BatcherFixture::new();
    let claim = fixture.idle_claim("a", &["email"], 100);
    fixture.store.hold();
    let first = fixture.submit("sms");
    fixture.store.wait_begun(3);
    let good: Vec<_> = (0..15).map(|_| fixture.submit("email")).collect();
    let bad = fixture.submit("damaged");
    fixture.store.release();
    block_on(first).unwrap();
    for call in good {
        submitted(&block_on(call));
    }
    assert!(matches!(block_on(bad), Err(StoreError::Damaged(None))));
    let claimed = block_on(claim).unwrap();
    assert!(!claimed.is_empty());
    let parts: usize = fixture.batch_letters().len();
    assert!(parts <= 3 + 2 * 5, "halves of halves, not one by one: {:?}", fixture.batch_letters());
}

#[test]
fn a_batch_failure_reaches_every_caller_with_its_cause() {
    let fixture = BatcherFixture::new();
    fixture.store.hold();
    let first = fixture.submit("email");
    fixture.store.wait_begun(1);
    let calls = [fixture.submit("email"), fixture.submit("email")];
    let claim = fixture.claim_waiting("a");
    fixture.store.fail(|| StoreError::OutcomeUnknown(Some("the disk is gone".into())));
    fixture.store.release();
    drop(first);
    for call in calls {
        check_disk_error(&block_on(call).unwrap_err());
    }
    check_disk_error(&block_on(claim).unwrap_err());
}

#[track_caller]
fn check_disk_error(error: &StoreError) {
    assert!(matches!(error, StoreError::OutcomeUnknown(_)), "{error:?}");
    let cause = std::error::Error::source(error).expect("there is a cause");
    assert_eq!(cause.to_string(), "the disk is gone");
}

#[test]
fn the_batcher_does_not_call_a_store_that_panicked() {
    let fixture = BatcherFixture::new();
    fixture.store.hold();
    let in_flight = fixture.submit("panic");
    fixture.store.wait_begun(1);
    let (waiting, claim) = (fixture.submit("email"), fixture.claim_waiting("a"));
    fixture.store.release();
    assert!(matches!(block_on(in_flight), Err(StoreError::OutcomeUnknown(_))));
    assert!(matches!(block_on(waiting), Err(StoreError::Unavailable(_))));
    assert!(matches!(block_on(claim), Err(StoreError::Unavailable(_))));
    let late = fixture.execute(heartbeat());
    assert!(matches!(late, Err(StoreError::Unavailable(_))));
    assert_eq!(fixture.batch_letters(), ["s"]);
}

#[test]
fn a_waiting_claim_runs_again_only_when_it_may_find_work() {
    let fixture = BatcherFixture::new();
    let claim = fixture.idle_claim("a", &["email"], 1);
    let own = Scope::One(engine::Tenant::parse("stranger").unwrap());
    let stranger = fixture.batcher.claim_waiting(own, claim_request("b", &["sms"], 1));
    fixture.wait_settled(3);
    fixture.job("sms");
    let later = JobDraft { delay_seconds: Some(60), ..draft("email") };
    fixture.execute(Request::Submit(vec![fixture.store.new_job(later)])).unwrap();
    fixture.batcher.wake(Some(&[job_type("fax")]));
    fixture.wait_settled(4);
    assert_eq!(fixture.batch_letters(), ["c", "c", "s", "s"]);
    fixture.store.clock.pass(Duration::from_secs(60));
    fixture.batcher.wake(Some(&[job_type("fax"), job_type("email")]));
    assert_eq!(block_on(claim).unwrap().len(), 1);
    assert_eq!(fixture.batcher.waiting().waiting_claims, 1);
    assert_eq!(block_on(stranger.withdraw()).unwrap(), []);
}

fn draft(job_type: &str) -> JobDraft {
    JobDraft { job_type: job_type.into(), ..JobDraft::default() }
}

#[test]
fn a_batch_takes_along_as_many_claims_as_it_can_serve() {
    let fixture = BatcherFixture::new();
    let names = ["a", "b", "c", "d"];
    let mut claims: Vec<_> =
        names.iter().map(|name| fixture.idle_claim(name, &["email"], 1)).collect();
    let one = fixture.job("email");
    assert_eq!(ids(&block_on(claims.remove(0)).unwrap()), [one], "first come, first served");
    fixture.execute(fixture.store.submit("email", 2)).unwrap();
    assert_eq!(block_on(claims.remove(0)).unwrap().len(), 1);
    assert_eq!(block_on(claims.remove(0)).unwrap().len(), 1);
    assert_eq!(fixture.batcher.waiting().waiting_claims, 1);
    assert_eq!(fixture.batch_letters()[4..], ["sc", "scc"]);
}

#[test]
fn a_job_the_first_claim_left_goes_to_the_next_claim() {
    let fixture = BatcherFixture::new();
    let old = JobDraft { delay_seconds: Some(60), ..draft("call") };
    let old = fixture.store.new_job(old);
    let old_id = old.id;
    fixture.execute(Request::Submit(vec![old])).unwrap();
    let first = fixture.idle_claim("a", &["call", "email"], 1);
    let second = fixture.idle_claim("b", &["email"], 1);
    // No claim was woken for it, but the first claim that runs for another reason gets it.
    fixture.store.clock.pass(Duration::from_secs(120));
    fixture.job("email");
    assert_eq!(ids(&block_on(first).unwrap()), [old_id]);
    assert_eq!(block_on(second).unwrap()[0].job.envelope.job_type, job_type("email"));
    assert_eq!(fixture.batch_letters(), ["s", "c", "c", "sc", "c"]);
}

#[test]
fn a_released_job_goes_to_a_waiting_claim() {
    let fixture = BatcherFixture::new();
    let id = fixture.job("email");
    let claimed = block_on(fixture.claim_waiting("a")).unwrap();
    let claim = fixture.idle_claim("b", &["email"], 1);
    let command = engine::Command::Release {
        token: claimed[0].job.lease().unwrap().token,
        reason: engine::ReleaseReason::Released,
        delay: Duration::ZERO,
    };
    fixture.execute(Request::Command { scope: Scope::All, id, command }).unwrap();
    assert_eq!(ids(&block_on(claim).unwrap()), [id]);
    assert_eq!(fixture.batch_letters(), ["s", "c", "c", "jc"]);
}

#[test]
fn a_queue_that_goes_on_wakes_its_workers() {
    let fixture = BatcherFixture::new();
    let (scope, email) = (Scope::All, job_type("email"));
    fixture
        .execute(Request::Pause {
            scope: scope.clone(),
            job_type: email.clone(),
            note: engine::PauseNote::default(),
        })
        .unwrap();
    fixture.job("email");
    let claim = fixture.idle_claim("a", &["email"], 1);
    fixture.execute(Request::Resume { scope, job_type: email }).unwrap();
    assert_eq!(block_on(claim).unwrap().len(), 1);
    assert_eq!(fixture.batch_letters(), ["p", "s", "c", "pc"]);
}

fn with_audit_entry(request: Request) -> Request {
    let note = engine::AuditNote {
        who: "key:1".into(),
        name: None,
        scope: Scope::All,
        action: "test.act",
        target: "x".into(),
        detail: None,
        correlation: engine::CorrelationId::parse("c").unwrap(),
    };
    request.audited(note)
}

#[test]
fn an_audited_redrive_wakes_waiting_claims() {
    let fixture = BatcherFixture::new();
    let id = fixture.job("email");
    let command = |command| with_audit_entry(Request::Command { scope: Scope::All, id, command });
    fixture.execute(command(engine::Command::Cancel)).unwrap();
    let claim = fixture.idle_claim("a", &["email"], 1);
    let redrive = engine::Command::redrive();
    fixture.execute(command(redrive)).unwrap();
    assert_eq!(ids(&block_on(claim).unwrap()), [id]);
    assert_eq!(fixture.batch_letters(), ["s", "j", "c", "jc"]);
}

#[test]
fn a_claim_dropped_before_its_batch_does_not_run() {
    let fixture = BatcherFixture::new();
    fixture.job("email");
    fixture.store.hold();
    let mut busy = fixture.start_call(heartbeat());
    assert!(poll(&mut busy).is_pending());
    fixture.store.wait_begun(2);
    let claim_request = claim_request("gone", &["email"], 1);
    let mut gone = fixture.start_call(Request::Claim { scope: Scope::All, claim_request });
    assert!(poll(&mut gone).is_pending());
    drop(gone);
    fixture.store.release();
    block_on(busy).unwrap();
    fixture.execute(heartbeat()).unwrap();
    assert_eq!(fixture.batch_letters(), ["s"], "no caller would get the answer");
}

#[test]
fn a_dropped_waiting_claim_does_not_run_again() {
    let fixture = BatcherFixture::new();
    drop(fixture.idle_claim("a", &["email"], 1));
    assert_eq!(fixture.batcher.waiting().waiting_claims, 0);
    let id = fixture.job("email");
    assert_eq!(fixture.read_job(id).status(), Status::Queued);
    assert_eq!(fixture.batch_letters(), ["c", "s"]);
}

#[test]
fn a_claim_dropped_during_its_batch_leaves_no_lease() {
    let fixture = BatcherFixture::new();
    let id = fixture.job("email");
    fixture.store.hold();
    let claim = fixture.claim_waiting("a");
    fixture.store.wait_begun(2);
    drop(claim);
    fixture.store.release();
    check_unclaimed(&fixture, id, 3);
    assert_eq!(fixture.batch_letters(), ["s", "c", "j"]);
}

#[test]
fn a_claim_dropped_before_it_reads_its_reply_leaves_no_lease() {
    let fixture = BatcherFixture::new();
    let id = fixture.job("email");
    fixture.store.hold();
    drop_unread(&fixture, fixture.claim_waiting("a"));
    check_unclaimed(&fixture, id, 3);

    let claim_request = claim_request("b", &["email"], 1);
    fixture.store.hold();
    drop_unread(&fixture, fixture.start_call(Request::Claim { scope: Scope::All, claim_request }));
    check_unclaimed(&fixture, id, 6);
    assert_eq!(fixture.batch_letters(), ["s", "c", "j", "c", "j"]);
}

#[test]
fn a_dropped_claim_that_does_not_wait_leaves_no_lease() {
    let fixture = BatcherFixture::new();
    let id = fixture.job("email");
    fixture.store.hold();
    let claim = |name| Request::Claim {
        scope: Scope::All,
        claim_request: claim_request(name, &["email"], 1),
    };
    let in_flight = fixture.start_call(claim("a"));
    fixture.store.wait_begun(2);
    let waiting = fixture.start_call(claim("b"));
    drop((in_flight, waiting));
    fixture.store.release();
    check_unclaimed(&fixture, id, 3);
    assert_eq!(fixture.batch_letters(), ["s", "c", "j"], "the second was not executed");
}

#[test]
fn a_lease_that_one_caller_received_is_not_released() {
    let fixture = BatcherFixture::new();
    let id = fixture.job("email");
    fixture.store.hold();
    let first = fixture.submit("sms");
    fixture.store.wait_begun(2);
    // A claim and its repetition in one batch: only one caller still waits.
    let (kept, dropped) = (fixture.claim_waiting("a"), fixture.claim_waiting("a"));
    fixture.store.release_one();
    fixture.store.wait_begun(3);
    drop(dropped);
    fixture.store.release();
    block_on(first).unwrap();
    assert_eq!(ids(&block_on(kept).unwrap()), [id]);
    fixture.wait_settled(3);
    assert_eq!(fixture.read_job(id).status(), Status::Running);
    assert_eq!(fixture.batch_letters(), ["s", "s", "cc"]);
}

/// The job waits and has lost no attempt.
#[track_caller]
fn check_unclaimed(fixture: &BatcherFixture, id: JobId, transactions: usize) {
    fixture.wait_settled(transactions);
    let job = fixture.read_job(id);
    assert_eq!((job.status(), job.life.attempt), (Status::Queued, 0));
}

/// Releases the store, waits until a future is ready, and drops it unread.
fn drop_unread(fixture: &BatcherFixture, mut future: impl Future + Unpin) {
    struct Notifier(mpsc::Sender<()>);
    impl Wake for Notifier {
        fn wake(self: Arc<Self>) {
            self.0.send(()).expect("the test waits for the notification");
        }
    }
    let (notifier, notified) = mpsc::channel();
    let waker = Waker::from(Arc::new(Notifier(notifier)));
    assert!(Pin::new(&mut future).poll(&mut Context::from_waker(&waker)).is_pending());
    fixture.store.release();
    notified.recv().unwrap();
}

#[test]
fn a_claim_can_be_withdrawn() {
    let fixture = BatcherFixture::new();
    let claim = fixture.idle_claim("a", &["email"], 1);
    assert_eq!(block_on(claim.withdraw()).unwrap(), []);
    assert_eq!(fixture.batch_letters(), ["c"], "the store was not asked");

    fixture.store.hold();
    let nothing = fixture.claim_waiting("b");
    fixture.store.wait_begun(3);
    let mut withdrawn = pin!(nothing.withdraw());
    assert!(poll(&mut withdrawn).is_pending());
    fixture.store.release();
    assert_eq!(block_on(withdrawn).unwrap(), []);
    assert_eq!(fixture.batcher.waiting().waiting_claims, 0);

    let id = fixture.job("email");
    fixture.store.hold();
    let something = fixture.claim_waiting("c");
    fixture.store.wait_begun(5);
    let mut withdrawn = pin!(something.withdraw());
    assert!(poll(&mut withdrawn).is_pending());
    fixture.store.release();
    assert_eq!(ids(&block_on(withdrawn).unwrap()), [id]);
}

#[test]
fn a_closing_batcher_answers_every_caller() {
    let fixture = BatcherFixture::with(Limits { waiting_bytes_max: 4_000, ..Limits::default() });
    let claim = fixture.idle_claim("a", &["sms"], 1);
    fixture.store.hold();
    let in_flight = fixture.submit("email");
    fixture.store.wait_begun(3);
    let waiting: Vec<_> = (0..10).map(|_| fixture.submit("email")).collect();
    assert!(fixture.batcher.waiting().overflow > 0);
    thread::scope(|scope| {
        scope.spawn(|| fixture.batcher.close());
        assert_eq!(block_on(claim).unwrap(), [], "so it has begun to close");
        let refused = fixture.execute(heartbeat());
        assert!(matches!(refused, Err(StoreError::Unavailable(_))));
        assert!(matches!(block_on(fixture.claim_waiting("b")), Err(StoreError::Unavailable(_))));
        fixture.store.release();
    });
    submitted(&block_on(in_flight));
    for call in waiting {
        submitted(&block_on(call));
    }
    fixture.batcher.close(); // for the second time
}

#[test]
fn several_writers_share_the_work() {
    let fixture = BatcherFixture::with(Limits { writers: 2, ..Limits::default() });
    fixture.store.hold();
    let one = fixture.submit("email");
    fixture.store.wait_begun(1);
    let two = fixture.submit("email");
    fixture.store.wait_begun(2);
    fixture.store.release();
    assert_ne!(submitted(&block_on(one)), submitted(&block_on(two)));
}

#[test]
fn the_verbs_do_not_know_the_difference() {
    let fixture = BatcherFixture::new();
    let clock = fixture.store.clock.clone();
    let random = Arc::new(store::SeededRandom::new(2));
    let batcher = Arc::new(fixture.batcher);
    let (writes, memory) = (Writes::Batched(batcher.clone()), fixture.store.memory.clone());
    let platform = Platform::with_writes(writes, memory, clock, random, Settings::default());
    let claim = batcher.claim_waiting(Scope::All, claim_request("a", &["email"], 1));
    let tenant = engine::Tenant::default_tenant();
    let id = block_on(platform.submit(&tenant, draft("email"))).unwrap().job_id;
    let claimed = block_on(claim).unwrap().remove(0);
    let ending = engine::EndingDraft::new(engine::Outcome::Completed).check().unwrap();
    let token = claimed.job.lease().unwrap().token;
    let report = platform::Report { id, token, ending };
    let results = block_on(platform.settle(&Scope::All, vec![report])).unwrap();
    assert!(matches!(results[..], [Ok(Status::Completed)]), "{results:?}");
    assert_eq!(block_on(platform.job(&Scope::All, id)).unwrap().status(), Status::Completed);
}

#[test]
fn a_full_store_still_accepts_worker_reports() {
    let fixture = BatcherFixture::new();
    fixture.store.hold();
    let first = fixture.submit("email");
    fixture.store.wait_begun(1);
    let (report, large) = (fixture.start_call(heartbeat()), fixture.submit("large"));
    fixture.store.release();
    block_on(first).unwrap();
    assert!(block_on(report).is_ok(), "the submit of another caller does not refuse it");
    assert!(matches!(block_on(large), Err(StoreError::Full(None))));
}
