//! Runs handlers in a test: a platform in memory, and a clock that only the test moves.
//!
//! The test does not wait for a job that is retried days later:
//!
//! ```
//! use worker::{Context, Fail, JobRequest, on, testing::TestHarness};
//! use engine::Status;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let harness = TestHarness::new().with(on("report", |_: (), context: Context| async move {
//!     if context.attempt() < 3 {
//!         return Err(Fail::retry("NOT_READY", "the data is not there yet")
//!             .after(std::time::Duration::from_secs(2 * 86_400)));
//!     }
//!     Ok("done")
//! }));
//! let job = harness.submit(JobRequest::new("report", &())).await;
//! let took = harness.run_until_idle().await;
//!
//! assert_eq!(harness.job(job).await.status(), Status::Completed);
//! assert_eq!(took.as_secs(), 4 * 86_400, "by the test's clock");
//! # }
//! ```
//!
//! The rules are the real ones: the harness runs handlers on the real platform over the memory
//! store, the executable specification of all stores. [`Context::sleep`](crate::Context::sleep),
//! heartbeats, timeouts and leases follow the test's clock. Where such a sleep races with something
//! real, the sleep is likely to win: the test's clock moves as soon as the handler has done nothing
//! for a moment.

use crate::{
    attempt::{self, Attempt, AttemptEnd, RunnerContext, StopReason},
    backend::{Backend, ClaimedJob, LeaseStatus},
    handler::{HandlerFn, Registration},
    local::Local,
    request::JobRequest,
    time::Time,
};
use engine::{
    ClaimId, ClaimRequest, HistoryEntry, Job, JobId, JobType, Release, Report, Scope, Status,
    Tenant, Timestamp, WorkerId,
};
use platform::{Platform, Settings};
use std::{
    future::poll_fn,
    pin::{Pin, pin},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
    task::{Poll, Waker},
    time::Duration,
};
use store::{Clock, ManualClock, Memory, SeededRandom};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// A platform in memory with some handlers; its clock moves only when the test moves it.
///
/// It needs a tokio runtime (`#[tokio::test]`), and panics with a reason if the test is wrong.
pub struct TestHarness {
    clock: Arc<ManualClock>,
    platform: Arc<Platform>,
    backend: Arc<dyn Backend>,
    manual_time: Arc<ManualTime>,
    runner: Arc<RunnerContext>,
    test_types: Vec<TestType>,
    claims: AtomicU64,
}

struct TestType {
    job_type: JobType,
    handler: HandlerFn,
    lease: Option<Duration>,
}

/// More attempts than this in one call are taken for an endless loop.
const ATTEMPTS_MAX: usize = 100_000;
/// How long a handler may wait for something other than the test's clock.
const REAL_WAIT_MAX: Duration = Duration::from_secs(10);
/// A handler that has done nothing for so long, in real time, is taken to be only sleeping.
const QUIET: Duration = Duration::from_millis(2);
/// Where the clock of every test starts: 2026-01-01T00:00:00Z.
const START_UNIX_MS: i64 = 1_767_225_600_000;

impl Default for TestHarness {
    fn default() -> Self {
        Self::new()
    }
}

impl TestHarness {
    /// An empty platform. Its random source has a fixed seed.
    pub fn new() -> Self {
        let clock = Arc::new(ManualClock::at(Timestamp::from_unix_ms(START_UNIX_MS)));
        let random = Arc::new(SeededRandom::new(1));
        let store = Arc::new(Memory::new(clock.clone(), random.clone()));
        let platform = Platform::new(store, clock.clone(), random, Settings::default());
        let platform = Arc::new(platform);
        let backend: Arc<dyn Backend> = Arc::new(Local::for_tests(platform.clone()));
        let manual_time = Arc::new(ManualTime::of(clock.clone()));
        let runner = Arc::new(RunnerContext {
            backend: Arc::downgrade(&backend),
            time: Time::Manual(manual_time.clone()),
            progress_made: Notify::new(),
            stopping: CancellationToken::new(),
        });
        TestHarness {
            clock,
            platform,
            backend,
            manual_time,
            runner,
            test_types: Vec::new(),
            claims: AtomicU64::new(0),
        }
    }

    /// Adds a job type and its handler. Jobs run one after another; slots do not matter here.
    pub fn with(mut self, registration: Registration) -> Self {
        let job_type =
            JobType::parse(&registration.job_type).expect("the registration has a valid job type");
        if let Some(policy) = &registration.policy {
            let set = self.platform().set_policy(job_type.clone(), policy, None);
            // The memory store answers at once, so one poll is enough.
            let mut set = pin!(set);
            let polled = set.as_mut().poll(&mut std::task::Context::from_waker(Waker::noop()));
            assert!(matches!(polled, Poll::Ready(Ok(_))), "the policy of {job_type} was not set");
        }
        let twice = self.test_types.iter().any(|test_type| test_type.job_type == job_type);
        assert!(!twice, "{job_type} has two handlers");
        self.test_types.push(TestType {
            job_type,
            handler: registration.handler,
            lease: registration.lease,
        });
        self
    }

    /// The platform with all its verbs, for what the harness has no shorthand for.
    pub fn platform(&self) -> &Arc<Platform> {
        &self.platform
    }

    /// Submits a job.
    pub async fn submit(&self, request: JobRequest) -> JobId {
        let draft = request.into_draft().expect("the payload can be written as JSON");
        let submitted = self.platform().submit(&Tenant::default_tenant(), draft).await;
        submitted.expect("the draft is valid").job_id
    }

    /// A job as it is now.
    pub async fn job(&self, id: JobId) -> Job {
        self.platform().job(&Scope::All, id).await.expect("the job exists")
    }

    /// What has happened to a job.
    pub async fn history(&self, id: JobId) -> Vec<HistoryEntry> {
        self.platform().history(&Scope::All, id, 0).await.expect("the job exists")
    }

    /// The states that a job has gone through.
    pub async fn statuses(&self, id: JobId) -> Vec<Status> {
        self.history(id).await.into_iter().map(|row| row.to).collect()
    }

    /// How far the test's clock has come.
    pub fn elapsed(&self) -> Duration {
        self.clock.read().monotonic
    }

    /// Moves the clock without running handlers; the sweeper takes what is overdue.
    pub async fn advance(&self, span: Duration) {
        self.clock.pass(span);
        self.manual_time.wake();
        self.sweep().await;
    }

    /// Runs everything that is due now, and what becomes due by it; returns the number of attempts.
    pub async fn run_due(&self) -> usize {
        for attempts in 0..ATTEMPTS_MAX {
            let Some((handler, claimed)) = self.claim().await else { return attempts };
            self.run(&handler, claimed).await;
            self.sweep().await; // a node lets parents go on as soon as their last child has ended
        }
        panic!(
            "{ATTEMPTS_MAX} attempts, and there is still something due: do the handlers snooze?"
        );
    }

    /// Runs everything, and moves the clock from one due time to the next until no job is left that
    /// has a handler. Returns how long that took by the test's clock.
    pub async fn run_until_idle(&self) -> Duration {
        let started = self.elapsed();
        for _ in 0..ATTEMPTS_MAX {
            self.run_due().await;
            let now = self.clock.read().wall;
            let next =
                self.platform().next_due(now).await.expect("the memory store answers").due_at;
            let Some(due_at) = next else { return self.elapsed() - started };
            self.advance(due_at.since(now)).await;
        }
        panic!("{ATTEMPTS_MAX} due times, and something still waits");
    }

    async fn sweep(&self) {
        while self.platform().sweep().await.expect("the memory store answers").more {}
    }

    async fn claim(&self) -> Option<(HandlerFn, ClaimedJob)> {
        for test_type in &self.test_types {
            let number = self.claims.fetch_add(1, Ordering::Relaxed);
            let request = ClaimRequest {
                worker: worker(),
                host: None,
                claim: ClaimId::parse(&format!("harness-{number}")).expect("a short id is valid"),
                job_types: vec![test_type.job_type.clone()],
                max: 1,
                lease: test_type.lease,
            };
            let claimed = self.backend.claim(request).await.expect("the claim request is valid");
            if let Some(claimed) = claimed.into_iter().next() {
                return Some((test_type.handler.clone(), claimed));
            }
        }
        None
    }

    /// Runs one attempt to its end, by the test's clock, and reports it.
    async fn run(&self, handler: &HandlerFn, ClaimedJob { info, payload }: ClaimedJob) {
        let (id, token) = (info.id, info.token);
        let attempt = Attempt::new(info, worker(), self.runner.clone());
        let end = self.run_handler(handler, payload, &attempt).await;
        let results = match end {
            AttemptEnd::Settled(ending) => {
                let _last = self.heartbeat(&attempt).await; // the last progress of the handler
                self.backend.settle(vec![Report { id, token, ending }]).await
            }
            AttemptEnd::Released { reason, delay } => {
                let release = Release { id, token, reason, delay };
                self.backend.release(vec![release]).await
            }
        };
        // A refusal is lawful here: the report of a handler that lost its lease is not taken.
        drop(results.expect("the memory store answers"));
    }

    async fn run_handler(
        &self,
        handler: &HandlerFn,
        payload: engine::JsonText,
        attempt: &Arc<Attempt>,
    ) -> AttemptEnd {
        let deadline = self.elapsed() + attempt.job.timeout;
        let mut running = pin!(attempt::run(handler, payload, attempt));
        loop {
            if let Some(end) = self.poll(running.as_mut()).await {
                return end;
            }
            let Some(wakes_at) = self.manual_time.next() else { continue };
            self.advance_until(wakes_at.min(deadline), attempt).await;
            if self.elapsed() >= deadline {
                attempt.stop(StopReason::TimedOut);
                return attempt::timed_out(attempt.job.timeout);
            }
        }
    }

    /// Moves the clock while a handler sleeps, with heartbeats on the way. It ends early when the
    /// handler learns that it should stop.
    async fn advance_until(&self, until: Duration, attempt: &Attempt) {
        let step = attempt.job.lease / 3;
        let first_reason = attempt.stop_reason();
        while self.elapsed() < until && attempt.stop_reason() == first_reason {
            self.advance(step.min(until - self.elapsed())).await;
            self.heartbeat(attempt).await;
        }
    }

    /// Polls the handler until it has ended, or only sleeps by the test's clock.
    async fn poll(
        &self,
        mut running: Pin<&mut impl Future<Output = AttemptEnd>>,
    ) -> Option<AttemptEnd> {
        let mut quiet = pin!(tokio::time::sleep(QUIET));
        let polled = poll_fn(|cx| {
            self.manual_time.listen(cx.waker());
            if let Poll::Ready(end) = running.as_mut().poll(cx) {
                return Poll::Ready(Some(end));
            }
            // Real work beside the sleep goes first, because the test's clock would always win.
            match (self.manual_time.next(), quiet.as_mut().poll(cx)) {
                (Some(_), Poll::Ready(())) => Poll::Ready(None),
                (_, _) => Poll::Pending,
            }
        });
        tokio::time::timeout(REAL_WAIT_MAX, polled).await.unwrap_or_else(|_| {
            panic!(
                "the handler has waited for {REAL_WAIT_MAX:?} for something that is not the test's clock; \
                 to wait for time, use Context::sleep"
            )
        })
    }

    async fn heartbeat(&self, attempt: &Attempt) {
        let leases = self.backend.heartbeat(&attempt.worker, vec![attempt.heartbeat()]).await;
        match leases.expect("the memory store answers").first() {
            Some(LeaseStatus::CancelRequested) => attempt.stop(StopReason::Cancelled),
            Some(LeaseStatus::Lost) => attempt.stop(StopReason::LeaseLost),
            Some(LeaseStatus::Kept) | None => {}
        }
    }
}

fn worker() -> WorkerId {
    WorkerId::parse("harness").expect("a short id is valid")
}

/// Sleep that ends when a test moves its clock.
pub(crate) struct ManualTime {
    clock: Arc<ManualClock>,
    sleepers: Mutex<Vec<(Duration, Waker)>>,
    /// The harness, woken by new sleepers: they may be in tasks that the handler has spawned.
    listener: Mutex<Option<Waker>>,
}

impl ManualTime {
    fn of(clock: Arc<ManualClock>) -> Self {
        ManualTime { clock, sleepers: Mutex::default(), listener: Mutex::default() }
    }

    pub(crate) async fn sleep(&self, span: Duration) {
        let wakes_at = self.clock.read().monotonic.saturating_add(span);
        poll_fn(|cx| {
            if self.clock.read().monotonic >= wakes_at {
                return Poll::Ready(());
            }
            self.sleepers().push((wakes_at, cx.waker().clone()));
            self.wake_listener();
            Poll::Pending
        })
        .await;
    }

    fn listen(&self, waker: &Waker) {
        *self.listener.lock().expect(UNPOISONED) = Some(waker.clone());
    }

    fn wake_listener(&self) {
        let listener = self.listener.lock().expect(UNPOISONED).take();
        if let Some(listener) = listener {
            listener.wake();
        }
    }

    /// When the next sleeper wakes up.
    fn next(&self) -> Option<Duration> {
        self.sleepers().iter().map(|(wakes_at, _)| *wakes_at).min()
    }

    /// Wakes all sleepers; those that are too early sleep on.
    fn wake(&self) {
        let sleepers = std::mem::take(&mut *self.sleepers());
        sleepers.into_iter().for_each(|(_, waker)| waker.wake());
    }

    fn sleepers(&self) -> MutexGuard<'_, Vec<(Duration, Waker)>> {
        self.sleepers.lock().expect(UNPOISONED)
    }
}

const UNPOISONED: &str = "no code panics while it holds the locks of the manual time";
