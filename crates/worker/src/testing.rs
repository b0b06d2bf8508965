//! Handlers in a test: a platform in memory, and a clock that only the test moves.
//!
//! A job that is tried again next week is tried again at once:
//!
//! ```
//! use worker::{Context, Fail, JobRequest, on, testing::Kit};
//! use engine::Status;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let kit = Kit::new().with(on("report", |_: (), context: Context| async move {
//!     if context.attempt() < 3 {
//!         return Err(Fail::retry("NOT_READY", "the data is not there yet")
//!             .after(std::time::Duration::from_secs(2 * 86_400)));
//!     }
//!     Ok("done")
//! }));
//! let job = kit.submit(JobRequest::new("report", &())).await;
//! let took = kit.run_until_idle().await;
//!
//! assert_eq!(kit.job(job).await.status(), Status::Completed);
//! assert_eq!(took.as_secs(), 4 * 86_400, "by the test's clock");
//! # }
//! ```
//!
//! The rules are the same as everywhere: the kit runs handlers on the real platform over the store that is
//! the specification of all others. Handlers that sleep with [`Context::sleep`](crate::Context::sleep) live by the test's clock;
//! heartbeats, timeouts and leases do, too.

use crate::{
    attempt::{self, Attempt, Ended, House, Why},
    handler::{Duty, Run},
    request::JobRequest,
    time::Time,
};
use engine::{
    ClaimId, HistoryEntry, Job, JobId, JobType, Pulse, Scope, Status, Tenant, Timestamp, Wish,
    WorkerId,
};
use platform::{Beat, Platform, Release, Report, Settings};
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
use store::{Claimed, Clock, HandClock, Memory, SeededDice};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// A platform in memory with some handlers, in which time goes by when the test says so.
///
/// It needs a tokio runtime (`#[tokio::test]`), and panics with a reason where a test made a mistake.
pub struct Kit {
    clock: Arc<HandClock>,
    hand: Arc<HandTime>,
    house: Arc<House>,
    desks: Vec<(JobType, Run)>,
    claims: AtomicU64,
}

/// More attempts than this in one go are a loop.
const ATTEMPTS_MAX: usize = 100_000;
/// How long a handler may wait for something that is not the test's clock.
const REAL_WAIT_MAX: Duration = Duration::from_secs(10);
/// When the clock of every test begins: 2026-01-01T00:00:00Z.
const BEGIN_UNIX_MS: i64 = 1_767_225_600_000;

impl Default for Kit {
    fn default() -> Self {
        Self::new()
    }
}

impl Kit {
    /// An empty platform. Chance falls the same way every time.
    pub fn new() -> Self {
        let clock = Arc::new(HandClock::at(Timestamp::from_unix_ms(BEGIN_UNIX_MS)));
        let dice = Arc::new(SeededDice::new(1));
        let store = Arc::new(Memory::new(clock.clone(), dice.clone()));
        let platform = Platform::new(store, clock.clone(), dice, Settings::default());
        let hand = Arc::new(HandTime { clock: clock.clone(), sleepers: Mutex::default() });
        let house = Arc::new(House {
            platform: Arc::new(platform),
            scope: Scope::All,
            time: Time::ByHand(hand.clone()),
            spoke: Notify::new(),
            stopping: CancellationToken::new(),
        });
        Kit { clock, hand, house, desks: Vec::new(), claims: AtomicU64::new(0) }
    }

    /// Adds a job type and what is done about it. Jobs run one after another; slots do not matter here.
    pub fn with(mut self, duty: Duty) -> Self {
        let job_type = JobType::parse(&duty.job_type).expect("the name of a job type");
        if let Some(policy) = &duty.policy {
            let set = self.platform().set_policy(job_type.clone(), policy);
            // The memory answers at once: there is nothing to wait for.
            let mut set = pin!(set);
            let polled = set.as_mut().poll(&mut std::task::Context::from_waker(Waker::noop()));
            assert!(matches!(polled, Poll::Ready(Ok(_))), "the policy of {job_type} was not set");
        }
        self.desks.push((job_type, duty.run));
        self
    }

    /// All verbs, for what the kit has no shorthand for.
    pub fn platform(&self) -> &Arc<Platform> {
        &self.house.platform
    }

    /// Hands a job over.
    pub async fn submit(&self, request: JobRequest) -> JobId {
        let draft = request.into_draft().expect("a payload that can be written as JSON");
        let submitted = self.platform().submit(&Tenant::default_tenant(), draft).await;
        submitted.expect("the job was taken").job_id
    }

    /// A job as it is now.
    pub async fn job(&self, id: JobId) -> Job {
        self.platform().job(&Scope::All, id).await.expect("the job is there")
    }

    /// What has happened to a job.
    pub async fn history(&self, id: JobId) -> Vec<HistoryEntry> {
        self.platform().history(&Scope::All, id, 0).await.expect("the job is there")
    }

    /// The states that a job has gone through.
    pub async fn path(&self, id: JobId) -> Vec<Status> {
        self.history(id).await.into_iter().map(|row| row.to).collect()
    }

    /// How far the test's clock has come.
    pub fn elapsed(&self) -> Duration {
        self.clock.read().monotonic
    }

    /// Lets time go by without running anything; what it overtakes is swept.
    pub async fn pass(&self, span: Duration) {
        self.clock.pass(span);
        self.hand.wake();
        self.sweep().await;
    }

    /// Runs everything that is due now, and what becomes due by it; says how many attempts that took.
    pub async fn run_due(&self) -> usize {
        for attempts in 0..ATTEMPTS_MAX {
            let Some((run, claimed)) = self.claim().await else { return attempts };
            self.run(&run, claimed).await;
        }
        panic!(
            "{ATTEMPTS_MAX} attempts, and there is still something due: do the handlers snooze?"
        );
    }

    /// Runs everything, and moves the clock from one due time to the next until nothing waits any more
    /// for which there is a handler. Says how long that took by the test's clock.
    pub async fn run_until_idle(&self) -> Duration {
        let begun = self.elapsed();
        for _ in 0..ATTEMPTS_MAX {
            self.run_due().await;
            let now = self.clock.read().wall;
            let next = self.platform().next_due(now).await.expect("the memory answers").due_at;
            let Some(due_at) = next else { return self.elapsed() - begun };
            self.pass(due_at.since(now)).await;
        }
        panic!("{ATTEMPTS_MAX} due times, and something still waits");
    }

    async fn sweep(&self) {
        while self.platform().sweep().await.expect("the memory answers").more {}
    }

    async fn claim(&self) -> Option<(Run, Claimed)> {
        let job_types: Vec<JobType> = self.desks.iter().map(|(name, _)| name.clone()).collect();
        if job_types.is_empty() {
            return None;
        }
        let number = self.claims.fetch_add(1, Ordering::Relaxed);
        let wish = Wish {
            worker: worker(),
            host: None,
            claim: ClaimId::parse(&format!("kit-{number}")).expect("a short name"),
            job_types,
            max: 1,
            lease: None,
        };
        let claimed = self.platform().claim(&Scope::All, wish).await.expect("the memory answers");
        let claimed = claimed.into_iter().next()?;
        let mut desks = self.desks.iter();
        let desk = desks.find(|(name, _)| *name == claimed.job.envelope.job_type);
        let (_, run) = desk.expect("only what was asked for is given");
        Some((run.clone(), claimed))
    }

    /// Runs one attempt to its end, by the test's clock, and reports it.
    async fn run(&self, run: &Run, claimed: Claimed) {
        let attempt = Attempt::new(claimed.job, worker(), self.house.clone());
        let attempt = attempt.expect("a claimed job has a lease");
        let ended = self.live(run, claimed.payload, &attempt).await;
        let (id, token) = (attempt.job.id(), attempt.token);
        let scope = &Scope::All;
        let verdicts = match ended {
            Ended::Settled(ending) => {
                let _last = self.beat(&attempt).await; // what the handler said at the end
                self.platform().settle(scope, vec![Report { id, token, ending }]).await
            }
            Ended::GivenBack { reason, delay } => {
                let back = Release { id, token, reason, delay };
                self.platform().release(scope, vec![back]).await
            }
        };
        // A refusal is the contract's business: a handler that lost its lease is not heard.
        drop(verdicts.expect("the memory answers"));
    }

    async fn live(&self, run: &Run, payload: engine::JsonText, attempt: &Arc<Attempt>) -> Ended {
        let begun = self.elapsed();
        let mut running = pin!(attempt::run(run, payload, attempt));
        loop {
            if let Some(ended) = self.poll(running.as_mut()).await {
                return ended;
            }
            let Some(wakes_at) = self.hand.next() else { continue };
            let deadline = begun + attempt.timeout();
            let step = attempt.lease_length() / 3;
            let until = wakes_at.min(deadline).min(self.elapsed() + step);
            self.pass(until.saturating_sub(self.elapsed())).await;
            if self.elapsed() >= deadline {
                attempt.stop(Why::TimedOut);
                return attempt::timed_out(attempt.timeout());
            }
            self.beat(attempt).await;
        }
    }

    /// Lets the handler run until it has ended, or waits for the test's clock.
    async fn poll(&self, mut running: Pin<&mut impl Future<Output = Ended>>) -> Option<Ended> {
        let polled = poll_fn(|cx| match running.as_mut().poll(cx) {
            Poll::Ready(ended) => Poll::Ready(Some(ended)),
            Poll::Pending if self.hand.next().is_some() => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        });
        tokio::time::timeout(REAL_WAIT_MAX, polled).await.unwrap_or_else(|_| {
            panic!(
                "the handler has waited for {REAL_WAIT_MAX:?} for something that is not the test's clock; \
                 to wait for time, use Context::sleep"
            )
        })
    }

    async fn beat(&self, attempt: &Attempt) {
        let progress = attempt.said().progress.take();
        let beat = Beat { id: attempt.job.id(), token: attempt.token, progress };
        let pulses = self.platform().heartbeat(&Scope::All, &attempt.worker, vec![beat]).await;
        match pulses.expect("the memory answers").first() {
            Some(Pulse::CancelRequested(_)) => attempt.stop(Why::Cancelled),
            Some(Pulse::Lost | Pulse::Ended) => attempt.stop(Why::LeaseLost),
            Some(Pulse::Extended(_)) | None => {}
        }
    }
}

fn worker() -> WorkerId {
    WorkerId::parse("kit").expect("a short name")
}

/// Sleep that ends when a test moves its clock.
pub(crate) struct HandTime {
    clock: Arc<HandClock>,
    sleepers: Mutex<Vec<(Duration, Waker)>>,
}

impl HandTime {
    pub(crate) async fn sleep(&self, span: Duration) {
        let wakes_at = self.clock.read().monotonic.saturating_add(span);
        poll_fn(|cx| {
            if self.clock.read().monotonic >= wakes_at {
                return Poll::Ready(());
            }
            self.sleepers().push((wakes_at, cx.waker().clone()));
            Poll::Pending
        })
        .await;
    }

    /// When the next sleeper wakes up.
    fn next(&self) -> Option<Duration> {
        self.sleepers().iter().map(|(wakes_at, _)| *wakes_at).min()
    }

    /// Wakes everybody; who is too early goes on sleeping.
    fn wake(&self) {
        let sleepers = std::mem::take(&mut *self.sleepers());
        sleepers.into_iter().for_each(|(_, waker)| waker.wake());
    }

    fn sleepers(&self) -> MutexGuard<'_, Vec<(Duration, Waker)>> {
        self.sleepers.lock().expect("nothing panics with the sleepers in hand")
    }
}
