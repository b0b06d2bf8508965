//! How long a client should wait before it asks for a job again, from how fast its queue really moves.
//!
//! It is asked for every job that comes in and for every look at one, so an answer is a look at a board
//! and a division. The clockwork keeps the board up to date, and only while somebody asks.

use crate::{Error, Platform};
use engine::{Job, JobType, Scope, Start, Tenant, Timestamp};
use std::{
    collections::HashMap,
    mem,
    sync::{
        RwLock, RwLockReadGuard,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use store::{Clock, QueueDepth};

/// Nobody is told to wait less.
const WAIT_MIN: Duration = Duration::from_secs(1);
/// Nor longer for a job that could start, or has.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// Nor for one whose time has not come: it may be cancelled, and who waits wants to know.
const NOT_DUE_WAIT_MAX: Duration = Duration::from_secs(3_600);
/// What we say of a queue that nobody has seen move.
const GUESS: Duration = Duration::from_secs(5);
/// A board that is older says nothing: nobody asked for a while.
const BOARD_KEPT: Duration = Duration::from_secs(10);
/// What happened so long ago has lost two thirds of its weight.
const MEMORY: Duration = Duration::from_secs(10);

impl Platform {
    /// How long a client should wait before it asks for `job` again, in whole seconds; nothing once it has
    /// ended.
    pub fn retry_after(&self, job: &Job) -> Option<Duration> {
        if job.status().is_ended() {
            return None;
        }
        let stand = job.run_at().map_or(WaitPosition::Running, |run_at| self.waiting_until(run_at));
        Some(self.pace.wait(&*self.clock, &job.envelope.tenant, &job.envelope.job_type, stand))
    }

    /// The same for a job that has just been handed over, without a look at it.
    pub fn retry_after_submit(
        &self,
        tenant: &Tenant,
        job_type: &JobType,
        start: Start,
    ) -> Duration {
        let stand = match start {
            Start::Now => WaitPosition::Due,
            Start::At(run_at) => self.waiting_until(run_at),
            Start::After(delay) => WaitPosition::NotDue(delay),
        };
        self.pace.wait(&*self.clock, tenant, job_type, stand)
    }

    /// Brings the board up to date if somebody asked since the last time.
    pub(crate) async fn update_retry_after(&self) -> Result<(), Error> {
        if self.pace.asked.swap(false, Ordering::Relaxed) {
            let depths = self.store.queues(&Scope::All).await?;
            self.pace.note(self.clock.read().monotonic, &depths);
        }
        Ok(())
    }

    /// By our own clock: an estimate need not ask the store what time it is.
    fn waiting_until(&self, run_at: Timestamp) -> WaitPosition {
        let wait = run_at.since(self.clock.read().wall);
        if wait.is_zero() { WaitPosition::Due } else { WaitPosition::NotDue(wait) }
    }
}

/// Where a job stands, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WaitPosition {
    /// It waits for its time, so long.
    NotDue(Duration),
    /// It waits for a worker.
    Due,
    Running,
}

#[derive(Default)]
pub(crate) struct RetryAfterEstimator {
    board: RwLock<QueueRates>,
    /// Since the board was last brought up to date.
    asked: AtomicBool,
}

#[derive(Default)]
struct QueueRates {
    /// By the monotonic clock; nothing while nobody has asked.
    noted_at: Option<Duration>,
    queues: HashMap<JobType, HashMap<Tenant, QueueRate>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct QueueRate {
    /// Those who wait and could start now: whoever waits for its time is in nobody's way.
    due: u64,
    running: u64,
    /// How many jobs had ever left it.
    left: u64,
    /// How many leave it in a second when there is something to do; nothing until it was seen to move.
    rate: Option<f64>,
}

impl RetryAfterEstimator {
    fn wait(
        &self,
        clock: &dyn Clock,
        tenant: &Tenant,
        job_type: &JobType,
        stand: WaitPosition,
    ) -> Duration {
        // Looked at first: a flag that everybody writes would be fought over by all cores.
        if !self.asked.load(Ordering::Relaxed) {
            self.asked.store(true, Ordering::Relaxed);
        }
        if let WaitPosition::NotDue(wait) = stand {
            return whole_seconds(wait, NOT_DUE_WAIT_MAX);
        }
        let now = clock.read().monotonic;
        let board = self.board();
        let fresh = board.noted_at.is_some_and(|at| now <= at + BOARD_KEPT);
        let line = board.line(tenant, job_type).filter(|_| fresh);
        drop(board);
        whole_seconds(estimate(line, stand), WAIT_MAX)
    }

    /// Only the clockwork notes, so nobody else does between the reading and the writing.
    fn note(&self, now: Duration, depths: &[QueueDepth]) {
        let next = self.board().then(now, depths);
        let mut board = self.board.write().expect(UNPOISONED);
        let before = mem::replace(&mut *board, next);
        drop(board);
        drop(before);
    }

    fn board(&self) -> RwLockReadGuard<'_, QueueRates> {
        self.board.read().expect(UNPOISONED)
    }
}

const UNPOISONED: &str = "nothing panics with the board in hand";

impl QueueRates {
    fn then(&self, now: Duration, depths: &[QueueDepth]) -> Self {
        let elapsed = self.noted_at.map(|at| now.saturating_sub(at));
        let mut queues: HashMap<JobType, HashMap<Tenant, QueueRate>> = HashMap::new();
        for depth in depths {
            let queue = &depth.queue;
            // A queue that was not there the last time had lost nothing until then.
            let before = self.line(&queue.tenant, &queue.job_type).unwrap_or_default();
            let line = before.then(depth, elapsed);
            queues.entry(queue.job_type.clone()).or_default().insert(queue.tenant.clone(), line);
        }
        QueueRates { noted_at: Some(now), queues }
    }

    fn line(&self, tenant: &Tenant, job_type: &JobType) -> Option<QueueRate> {
        self.queues.get(job_type)?.get(tenant).copied()
    }
}

impl QueueRate {
    /// The queue as it is `elapsed` later; nothing if this is the first look.
    fn then(self, depth: &QueueDepth, elapsed: Option<Duration>) -> Self {
        let QueueDepth { counts, due, .. } = depth;
        // Whoever was handed over and neither waits nor runs. A redrive brings one back.
        let left = counts.submitted.saturating_sub(counts.queued + counts.running);
        let next = QueueRate { due: *due, running: counts.running, left, rate: self.rate };
        let seconds = elapsed.unwrap_or_default().as_secs_f64();
        let gone = left.saturating_sub(self.left);
        // That a queue stands still says something only while there is something to do.
        if seconds == 0.0 || gone == 0 && (self.is_idle() || self.rate.is_none()) {
            return next;
        }
        let lately = gone as f64 / seconds;
        let weight = (-seconds / MEMORY.as_secs_f64()).exp();
        let rate = self.rate.map_or(lately, |rate| rate * weight + lately * (1.0 - weight));
        QueueRate { rate: Some(rate), ..next }
    }

    fn is_idle(&self) -> bool {
        self.due + self.running == 0
    }
}

/// How long it will take, by Little's law: as many as are there, at the rate at which they leave.
fn estimate(line: Option<QueueRate>, stand: WaitPosition) -> Duration {
    let ahead = match (stand, line) {
        (WaitPosition::NotDue(wait), _) => return wait,
        // There was nobody when we last looked.
        (WaitPosition::Due, None | Some(QueueRate { due: 0, .. })) => return WAIT_MIN,
        (WaitPosition::Due, Some(line)) => line.due,
        (WaitPosition::Running, line) => line.map_or(0, |line| line.running),
    };
    match line.and_then(|line| line.rate) {
        Some(rate) if rate > 0.0 => {
            Duration::try_from_secs_f64(ahead as f64 / rate).unwrap_or(Duration::MAX)
        }
        Some(_) | None => GUESS,
    }
}

fn whole_seconds(wait: Duration, longest: Duration) -> Duration {
    let up = u64::from(wait.subsec_nanos() > 0);
    Duration::from_secs(wait.as_secs().saturating_add(up)).clamp(WAIT_MIN, longest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use store::{Counts, ManualClock, Queue};

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn line(due: u64, running: u64, rate: Option<f64>) -> Option<QueueRate> {
        Some(QueueRate { due, running, left: 0, rate })
    }

    #[track_caller]
    fn check(line: Option<QueueRate>, stand: WaitPosition, expected: u64) {
        let longest = if stand == WaitPosition::Due || stand == WaitPosition::Running {
            WAIT_MAX
        } else {
            NOT_DUE_WAIT_MAX
        };
        assert_eq!(whole_seconds(estimate(line, stand), longest), seconds(expected));
    }

    #[test]
    fn whoever_is_due_waits_for_those_before_it() {
        check(line(100, 5, Some(10.0)), WaitPosition::Due, 10);
        check(line(101, 5, Some(10.0)), WaitPosition::Due, 11);
        check(line(1, 0, Some(1_000.0)), WaitPosition::Due, 1);
        check(line(1_000_000, 0, Some(0.5)), WaitPosition::Due, 60);
        check(line(u64::MAX, 0, Some(f64::MIN_POSITIVE)), WaitPosition::Due, 60);
    }

    #[test]
    fn whoever_runs_takes_as_long_as_the_others() {
        check(line(100, 30, Some(10.0)), WaitPosition::Running, 3);
        check(line(100, 0, Some(10.0)), WaitPosition::Running, 1);
    }

    #[test]
    fn nobody_knows_the_pace_of_a_queue_that_was_never_seen_to_move() {
        check(line(100, 1, None), WaitPosition::Due, 5);
        check(line(100, 1, Some(0.0)), WaitPosition::Due, 5);
        check(line(100, 1, None), WaitPosition::Running, 5);
        check(None, WaitPosition::Running, 5);
    }

    #[test]
    fn the_first_in_a_queue_is_soon_done() {
        check(None, WaitPosition::Due, 1);
        check(line(0, 7, Some(0.1)), WaitPosition::Due, 1);
    }

    #[test]
    fn whoever_is_not_due_waits_for_its_time() {
        check(line(100, 1, Some(1.0)), WaitPosition::NotDue(Duration::from_millis(61_001)), 62);
        check(None, WaitPosition::NotDue(Duration::from_nanos(1)), 1);
        check(None, WaitPosition::NotDue(Duration::MAX), 3_600);
    }

    fn depth(submitted: u64, due: u64, running: u64) -> QueueDepth {
        let queue =
            Queue { job_type: JobType::parse("email").unwrap(), tenant: Tenant::default_tenant() };
        let counts = Counts { submitted, queued: due, running, ..Counts::default() };
        QueueDepth { queue, counts, due, oldest_due_at: None, paused: false, live_workers: 1 }
    }

    #[test]
    fn the_rate_is_what_left_in_the_meantime() {
        let first = QueueRate::default().then(&depth(100, 90, 5), None);
        assert_eq!((first.left, first.rate), (5, None), "one look shows no movement");
        let still = first.then(&depth(100, 90, 5), Some(seconds(5)));
        assert_eq!(still.rate, None, "nor do two of the same");
        let second = first.then(&depth(120, 85, 5), Some(seconds(5)));
        assert_eq!((second.left, second.rate), (30, Some(5.0)));
        let same = second.then(&depth(120, 84, 5), Some(Duration::ZERO));
        assert_eq!(same.rate, Some(5.0), "no time went by");
    }

    #[test]
    fn the_rate_follows_slowly_while_there_is_something_to_do() {
        let busy = QueueRate { due: 1, left: 100, rate: Some(10.0), running: 0 };
        let still = busy.then(&depth(100, 1, 0), Some(seconds(1)));
        let rate = still.rate.unwrap();
        assert!((9.0..9.1).contains(&rate), "it stands, but not for long: {rate}");
        let later = still.then(&depth(100, 1, 0), Some(seconds(100))).rate.unwrap();
        assert!(later > 0.0 && later < 0.001, "{later}");
        let idle = QueueRate { due: 0, ..busy };
        assert_eq!(idle.then(&depth(100, 0, 0), Some(seconds(100))).rate, Some(10.0));
    }

    #[test]
    fn a_redrive_is_no_movement_back() {
        let busy = QueueRate { due: 1, left: 100, rate: Some(10.0), running: 0 };
        let back = busy.then(&depth(100, 5, 0), Some(seconds(1)));
        assert!(back.left == 95 && back.rate.unwrap() > 9.0, "{back:?}");
    }

    struct Fixture {
        pace: RetryAfterEstimator,
        clock: Arc<ManualClock>,
    }

    impl Fixture {
        fn new() -> Self {
            let clock = Arc::new(ManualClock::at(Timestamp::from_unix_ms(1_800_000_000_000)));
            Fixture { pace: RetryAfterEstimator::default(), clock }
        }

        fn note(&self, submitted: u64, due: u64) {
            self.pace.note(self.clock.read().monotonic, &[depth(submitted, due, 0)]);
        }

        fn wait(&self, tenant: &Tenant) -> Duration {
            self.pace.wait(
                &*self.clock,
                tenant,
                &JobType::parse("email").unwrap(),
                WaitPosition::Due,
            )
        }
    }

    #[test]
    fn a_board_is_believed_for_a_while() {
        let (yard, tenant) = (Fixture::new(), Tenant::default_tenant());
        assert_eq!(yard.wait(&tenant), seconds(1));
        yard.note(100, 100);
        assert_eq!(yard.wait(&tenant), seconds(5));
        yard.clock.pass(seconds(1));
        yard.note(100, 96);
        assert_eq!(yard.wait(&tenant), seconds(24));
        assert_eq!(yard.wait(&Tenant::parse("stranger").unwrap()), seconds(1), "nobody else's");
        yard.clock.pass(BOARD_KEPT);
        assert_eq!(yard.wait(&tenant), seconds(24));
        yard.clock.pass(Duration::from_millis(1));
        assert_eq!(yard.wait(&tenant), seconds(1), "who knows what has happened since");
    }

    #[test]
    fn a_queue_that_came_after_the_last_look_has_moved_since() {
        let (yard, tenant) = (Fixture::new(), Tenant::default_tenant());
        yard.pace.note(yard.clock.read().monotonic, &[]);
        yard.clock.pass(seconds(2));
        yard.note(40, 20);
        assert_eq!(yard.wait(&tenant), seconds(2));
    }
}
