//! The batcher, with every step of every thread chosen by a scheduler.
//!
//! Shuttle reports a deadlock when no thread can run: that is how a lost wake-up shows. A failure
//! prints its schedule, and `shuttle::replay` repeats it.
#![allow(clippy::unwrap_used, reason = "a test may")]

#[path = "../it/controlled_store.rs"]
#[allow(dead_code, reason = "the other tests use the rest")]
mod controlled_store;

use controlled_store::{ControlledStore, claim_request, job_type};
use engine::{Command, JobDraft, JobId, Scope, Status};
use platform::{Batcher, Changed, ClaimWait, Limits};
use shuttle::{
    Config, Runner,
    future::block_on,
    scheduler::{PctScheduler, RandomScheduler, Scheduler},
    thread,
};
use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Waker},
    time::Duration,
};
use store::{Answer, Reply, Request, Store, StoreError};

/// Runs `scenario` with threads scheduled at random, and again with threads that seldom switch.
fn check(scenario: fn()) {
    const ITERATIONS: usize = 2_000;
    const CHANGES: usize = 3;
    run(RandomScheduler::new(ITERATIONS), scenario);
    run(PctScheduler::new(CHANGES, ITERATIONS), scenario);
}

fn run(scheduler: impl Scheduler + 'static, scenario: fn()) {
    let mut config = Config::new();
    config.stack_size = 256 * 1024; // a store needs more stack than threads have here
    Runner::new(scheduler, config).run(scenario);
}

#[derive(Clone)]
struct ShuttleFixture {
    store: Arc<ControlledStore>,
    batcher: Arc<Batcher>,
}

/// A writer waits for the callers of every batch that it answered, however few, so the scheduler
/// decides how long.
fn limits(writers: usize) -> Limits {
    Limits { writers, gather_min: 1, ..Limits::default() }
}

impl ShuttleFixture {
    fn new(writers: usize) -> Self {
        ShuttleFixture::with(limits(writers))
    }

    fn with(limits: Limits) -> Self {
        let store = ControlledStore::new();
        let batcher = Arc::new(Batcher::start(store.clone(), limits).unwrap());
        ShuttleFixture { store, batcher }
    }

    fn submit(&self) -> Result<JobId, StoreError> {
        let call = self.batcher.execute(vec![self.store.submit("email", 1)]);
        block_on(call).map(|replies| submitted(&replies))
    }

    fn claim_waiting(&self, name: &str) -> ClaimWait {
        self.batcher.claim_waiting(Scope::All, claim_request(name, &["email"], 1))
    }

    /// Waits for one job.
    fn claim_one(&self, name: &str) -> JobId {
        block_on(self.claim_waiting(name)).unwrap()[0].job.id()
    }

    fn spawn<T: Send + 'static>(
        &self,
        scenario: impl FnOnce(&ShuttleFixture) -> T + Send + 'static,
    ) -> thread::JoinHandle<T> {
        let fixture = self.clone();
        thread::spawn(move || scenario(&fixture))
    }

    fn status(&self, id: JobId) -> Status {
        block_on(self.store.memory.job(&Scope::All, id)).unwrap().unwrap().status()
    }
}

fn submitted(replies: &[Reply]) -> JobId {
    match replies {
        [Ok(Answer::Submitted(jobs))] => jobs[0].job_id,
        other => panic!("not one submit: {other:?}"),
    }
}

/// Polls once for an answer, and drops the future.
fn poll_once<F: Future + Unpin>(mut future: F) -> Option<F::Output> {
    let polled = Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop()));
    match polled {
        std::task::Poll::Ready(output) => Some(output),
        std::task::Poll::Pending => None,
    }
}

fn every_caller_is_answered(limits: Limits) {
    let fixture = ShuttleFixture::with(limits);
    let callers = [(); 3]
        .map(|()| fixture.spawn(|fixture| [fixture.submit().unwrap(), fixture.submit().unwrap()]));
    let mut ids: Vec<JobId> = callers.into_iter().flat_map(|c| c.join().unwrap()).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 6);
    assert_eq!(fixture.store.batches().concat().len(), 6, "each is executed once");
}

#[test]
fn callers_are_answered_by_one_writer() {
    check(|| every_caller_is_answered(limits(1)));
}

#[test]
fn callers_are_answered_by_two_writers() {
    check(|| every_caller_is_answered(limits(2)));
}

#[test]
fn callers_are_answered_in_front_of_a_full_lane() {
    check(|| {
        let limits = Limits { waiting_bytes_max: 1, batch_requests_max: 1, ..limits(1) };
        let fixture = ShuttleFixture::with(limits);
        let callers = [(); 2].map(|()| fixture.spawn(|fixture| fixture.submit().unwrap()));
        let gone = fixture.spawn(|fixture| {
            poll_once(Box::pin(fixture.batcher.execute(vec![fixture.store.submit("email", 1)])));
        });
        for caller in callers {
            caller.join().unwrap();
        }
        gone.join().unwrap();
        fixture.submit().unwrap();
    });
}

#[test]
fn a_shutdown_loses_no_submit() {
    check(|| {
        let fixture = ShuttleFixture::new(1);
        let callers = [(); 2].map(|()| fixture.spawn(ShuttleFixture::submit));
        fixture.batcher.close();
        let mut stored = 0;
        for caller in callers {
            match caller.join().unwrap() {
                Ok(id) => {
                    assert_eq!(fixture.status(id), Status::Queued);
                    stored += 1;
                }
                Err(error) => assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}"),
            }
        }
        assert_eq!(
            fixture.store.batches().concat().len(),
            stored,
            "a refused submit is not stored"
        );
    });
}

fn a_shutdown_answers(writers: usize) {
    let fixture = ShuttleFixture::new(writers);
    let submit = fixture.spawn(ShuttleFixture::submit);
    let claims =
        ["a", "b"].map(|name| fixture.spawn(move |fixture| block_on(fixture.claim_waiting(name))));
    fixture.batcher.close();
    let submitted = submit.join().unwrap();
    let mut claimed = Vec::new();
    for claim in claims {
        match claim.join().unwrap() {
            Ok(jobs) => claimed.extend(jobs),
            Err(error) => assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}"),
        }
    }
    assert!(claimed.len() <= 1);
    if let Ok(id) = submitted {
        let expected = if claimed.is_empty() { Status::Queued } else { Status::Running };
        assert_eq!(fixture.status(id), expected);
    }
}

#[test]
fn a_shutdown_answers_waiting_claims() {
    check(|| a_shutdown_answers(1));
}

#[test]
fn a_shutdown_with_two_writers_answers_waiting_claims() {
    check(|| a_shutdown_answers(2));
}

fn every_job_finds_its_worker(writers: usize) {
    let fixture = ShuttleFixture::new(writers);
    let workers = ["a", "b"].map(|name| fixture.spawn(move |fixture| fixture.claim_one(name)));
    let callers = [(); 2].map(|()| fixture.spawn(|fixture| fixture.submit().unwrap()));
    let mut claimed_ids = workers.map(|worker| worker.join().unwrap());
    let mut submitted_ids = callers.map(|caller| caller.join().unwrap());
    claimed_ids.sort();
    submitted_ids.sort();
    assert_eq!(claimed_ids, submitted_ids);
}

#[test]
fn a_submit_is_never_missed_by_a_waiting_claim() {
    check(|| every_job_finds_its_worker(1));
}

#[test]
fn a_submit_is_never_missed_with_two_writers() {
    check(|| every_job_finds_its_worker(2));
}

#[test]
fn a_wake_up_is_never_lost() {
    check(|| {
        let fixture = ShuttleFixture::new(1);
        let later =
            JobDraft { job_type: "email".into(), delay_seconds: Some(60), ..JobDraft::default() };
        let later = Request::Submit(vec![fixture.store.new_job(later)]);
        let id = submitted(&block_on(fixture.batcher.execute(vec![later])).unwrap());
        let worker = fixture.spawn(|fixture| fixture.claim_one("a"));
        let maintenance = fixture.spawn(|fixture| {
            fixture.store.clock.pass(Duration::from_secs(60));
            fixture.batcher.wake(Some(&[job_type("email")]));
        });
        assert_eq!(worker.join().unwrap(), id);
        maintenance.join().unwrap();
    });
}

#[test]
fn a_claim_that_is_dropped_keeps_no_job_from_the_next() {
    check(|| {
        let fixture = ShuttleFixture::new(1);
        let gone = fixture.spawn(|fixture| poll_once(fixture.claim_waiting("a")));
        let id = fixture.submit().unwrap();
        match gone.join().unwrap() {
            Some(result) => assert_eq!(result.unwrap()[0].job.id(), id),
            None => assert_eq!(fixture.claim_one("b"), id),
        }
    });
}

#[test]
fn a_claim_dropped_before_shutdown_leaves_no_lease() {
    check(|| {
        let fixture = ShuttleFixture::new(1);
        let id = fixture.submit().unwrap();
        let result = poll_once(fixture.claim_waiting("a"));
        fixture.batcher.close();
        let expected = if result.is_some() { Status::Running } else { Status::Queued };
        assert_eq!(fixture.status(id), expected);
    });
}

#[test]
fn a_call_that_is_dropped_keeps_no_job_from_the_next() {
    check(|| {
        let fixture = ShuttleFixture::new(2);
        let gone = fixture.spawn(|fixture| {
            let claim = Request::Claim {
                scope: Scope::All,
                claim_request: claim_request("a", &["email"], 1),
            };
            poll_once(Box::pin(fixture.batcher.execute(vec![claim]))).is_some()
        });
        let id = fixture.submit().unwrap();
        // It may have received an empty answer, or the job.
        if !gone.join().unwrap() {
            assert_eq!(fixture.claim_one("b"), id);
        }
    });
}

#[test]
fn a_claim_that_is_withdrawn_answers_once() {
    check(|| {
        let fixture = ShuttleFixture::new(1);
        let claim = fixture.claim_waiting("a");
        let caller = fixture.spawn(|fixture| fixture.submit().unwrap());
        let claimed = block_on(claim.withdraw()).unwrap();
        let id = caller.join().unwrap();
        match &claimed[..] {
            [claimed] => assert_eq!(claimed.job.id(), id),
            [] => assert_eq!(fixture.claim_one("b"), id),
            [..] => panic!("the claim is for one job"),
        }
    });
}

#[test]
fn the_last_dropped_handle_closes_the_batcher() {
    check(|| {
        let fixture = ShuttleFixture::new(1);
        let claim = fixture.claim_waiting("a");
        let caller = fixture.spawn(|fixture| drop(fixture.submit()));
        drop(fixture);
        caller.join().unwrap();
        // The batcher has no owner any more, so the claim is answered.
        assert!(poll_once(claim).unwrap().unwrap().len() <= 1);
    });
}

/// Waits until the job has this status.
fn wait_for_status(fixture: &ShuttleFixture, id: JobId, status: Status) {
    let mut watch = fixture.batcher.watch(id);
    while fixture.status(id) != status {
        assert_eq!(block_on(watch.changed()), Changed::Touched);
    }
}

fn every_touch_is_reported(writers: usize) {
    let fixture = ShuttleFixture::new(writers);
    let id = fixture.submit().unwrap();
    let watchers = [(); 2]
        .map(|()| fixture.spawn(move |fixture| wait_for_status(fixture, id, Status::Cancelled)));
    let cancel = Request::Command { scope: Scope::All, id, command: Command::Cancel };
    block_on(fixture.batcher.execute(vec![cancel])).unwrap();
    watchers.into_iter().for_each(|watcher| watcher.join().unwrap());
}

#[test]
fn a_touch_is_never_missed_by_who_began_before_reading() {
    check(|| every_touch_is_reported(1));
}

#[test]
fn a_touch_is_never_missed_with_two_writers() {
    check(|| every_touch_is_reported(2));
}

#[test]
fn a_shutdown_ends_every_watch() {
    check(|| {
        let fixture = ShuttleFixture::new(1);
        let id = fixture.submit().unwrap();
        let watcher = fixture.spawn(move |fixture| {
            let mut watch = fixture.batcher.watch(id);
            while block_on(watch.changed()) != Changed::Closed {}
        });
        fixture.batcher.close();
        watcher.join().unwrap();
    });
}
