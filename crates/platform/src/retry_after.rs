//! How long a client should wait before it asks for a job again, estimated from the measured rate
//! of its queue.
//!
//! Every submit and every read of a job needs an estimate, so it costs only a lookup in a table and
//! a division. The maintenance thread updates the table, and only while clients ask.

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

/// The shortest answer.
const WAIT_MIN: Duration = Duration::from_secs(1);
/// The longest answer for a job that is due or running.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// The longest answer for a job that is not due: it may be cancelled, and a waiting client wants to
/// know.
const NOT_DUE_WAIT_MAX: Duration = Duration::from_secs(3_600);
/// The answer for a queue whose rate is unknown.
const WAIT_DEFAULT: Duration = Duration::from_secs(5);
/// An older table is ignored: it was not updated because no client asked.
const RATES_VALID_FOR: Duration = Duration::from_secs(10);
/// A measurement of this age has lost two thirds of its weight.
const RATE_DECAY: Duration = Duration::from_secs(10);

impl Platform {
    /// How long a client should wait before it asks for `job` again, in whole seconds; `None` once
    /// it has ended.
    pub fn retry_after(&self, job: &Job) -> Option<Duration> {
        if job.status().is_ended() {
            return None;
        }
        let position =
            job.run_at().map_or(WaitPosition::Running, |run_at| self.waiting_until(run_at));
        Some(self.retry_after_estimator.wait(
            &*self.clock,
            &job.envelope.tenant,
            &job.envelope.job_type,
            position,
        ))
    }

    /// The same for a job that was just submitted, without reading it.
    pub fn retry_after_submit(
        &self,
        tenant: &Tenant,
        job_type: &JobType,
        start: Start,
    ) -> Duration {
        let position = match start {
            Start::Now => WaitPosition::Due,
            Start::At(run_at) => self.waiting_until(run_at),
            Start::After(delay) => WaitPosition::NotDue(delay),
        };
        self.retry_after_estimator.wait(&*self.clock, tenant, job_type, position)
    }

    /// Updates the table if a client asked since the last time.
    pub(crate) async fn update_retry_after(&self) -> Result<(), Error> {
        if self.retry_after_estimator.requested.swap(false, Ordering::Relaxed) {
            let depths = self.store.queues(&Scope::All).await?;
            self.retry_after_estimator.update(self.clock.read().monotonic, &depths);
        }
        Ok(())
    }

    /// By the platform's own clock: an estimate is not worth a question to the store.
    fn waiting_until(&self, run_at: Timestamp) -> WaitPosition {
        let wait = run_at.since(self.clock.read().wall);
        if wait.is_zero() { WaitPosition::Due } else { WaitPosition::NotDue(wait) }
    }
}

/// The part of a job's state that the estimate needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WaitPosition {
    /// Waits for its start time, which is so far away.
    NotDue(Duration),
    /// Waits for a worker.
    Due,
    Running,
}

#[derive(Default)]
pub(crate) struct RetryAfterEstimator {
    rates: RwLock<QueueRates>,
    /// Whether a client asked since the last update of the table.
    requested: AtomicBool,
}

#[derive(Default)]
struct QueueRates {
    /// By the monotonic clock; `None` before the first update.
    updated_at: Option<Duration>,
    queues: HashMap<JobType, HashMap<Tenant, QueueRate>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct QueueRate {
    /// Waiting jobs that could start now. Jobs that are not due delay no other.
    due: u64,
    running: u64,
    /// How many jobs have ever left the queue.
    departures: u64,
    /// Jobs that leave per second while there is work; `None` until the queue was seen to move.
    rate: Option<f64>,
}

impl RetryAfterEstimator {
    fn wait(
        &self,
        clock: &dyn Clock,
        tenant: &Tenant,
        job_type: &JobType,
        position: WaitPosition,
    ) -> Duration {
        // Loaded first: if every request stored the flag, all cores would fight over its cache
        // line.
        if !self.requested.load(Ordering::Relaxed) {
            self.requested.store(true, Ordering::Relaxed);
        }
        if let WaitPosition::NotDue(wait) = position {
            return whole_seconds(wait, NOT_DUE_WAIT_MAX);
        }
        let now = clock.read().monotonic;
        let rates = self.rates();
        let is_fresh = rates.updated_at.is_some_and(|at| now <= at + RATES_VALID_FOR);
        let queue_rate = rates.queue_rate(tenant, job_type).filter(|_| is_fresh);
        drop(rates);
        whole_seconds(estimate(queue_rate, position), WAIT_MAX)
    }

    /// Only the maintenance thread calls this, so the table cannot change between the read and the
    /// write.
    fn update(&self, now: Duration, depths: &[QueueDepth]) {
        let next_rates = self.rates().next(now, depths);
        let mut rates = self.rates.write().expect(UNPOISONED);
        let before = mem::replace(&mut *rates, next_rates);
        drop(rates);
        drop(before);
    }

    fn rates(&self) -> RwLockReadGuard<'_, QueueRates> {
        self.rates.read().expect(UNPOISONED)
    }
}

const UNPOISONED: &str = "no code panics while it holds the table of rates";

impl QueueRates {
    fn next(&self, now: Duration, depths: &[QueueDepth]) -> Self {
        let elapsed = self.updated_at.map(|at| now.saturating_sub(at));
        let mut queues: HashMap<JobType, HashMap<Tenant, QueueRate>> = HashMap::new();
        for depth in depths {
            let queue = &depth.queue;
            // A queue that is new since the last update has lost nothing before it.
            let before = self.queue_rate(&queue.tenant, &queue.job_type).unwrap_or_default();
            let queue_rate = before.next(depth, elapsed);
            queues
                .entry(queue.job_type.clone())
                .or_default()
                .insert(queue.tenant.clone(), queue_rate);
        }
        QueueRates { updated_at: Some(now), queues }
    }

    fn queue_rate(&self, tenant: &Tenant, job_type: &JobType) -> Option<QueueRate> {
        self.queues.get(job_type)?.get(tenant).copied()
    }
}

impl QueueRate {
    /// The queue as it is `elapsed` later; `None` for the first measurement.
    fn next(self, depth: &QueueDepth, elapsed: Option<Duration>) -> Self {
        let QueueDepth { counts, due, .. } = depth;
        // Submitted jobs that neither wait nor run. A redrive lowers the number.
        let departures = counts.submitted.saturating_sub(counts.queued + counts.running);
        let unchanged_rate =
            QueueRate { due: *due, running: counts.running, departures, rate: self.rate };
        let seconds = elapsed.unwrap_or_default().as_secs_f64();
        let new_departures = departures.saturating_sub(self.departures);
        // A queue without movement says something only while it has work.
        if seconds == 0.0 || new_departures == 0 && (self.is_idle() || self.rate.is_none()) {
            return unchanged_rate;
        }
        let recent_rate = new_departures as f64 / seconds;
        let weight = (-seconds / RATE_DECAY.as_secs_f64()).exp();
        let rate =
            self.rate.map_or(recent_rate, |rate| rate * weight + recent_rate * (1.0 - weight));
        QueueRate { rate: Some(rate), ..unchanged_rate }
    }

    fn is_idle(&self) -> bool {
        self.due + self.running == 0
    }
}

/// The estimate by Little's law: the jobs ahead, divided by the rate at which they leave.
fn estimate(queue_rate: Option<QueueRate>, position: WaitPosition) -> Duration {
    let ahead = match (position, queue_rate) {
        (WaitPosition::NotDue(wait), _) => return wait,
        // The queue was empty at the last update.
        (WaitPosition::Due, None | Some(QueueRate { due: 0, .. })) => return WAIT_MIN,
        (WaitPosition::Due, Some(queue_rate)) => queue_rate.due,
        (WaitPosition::Running, queue_rate) => {
            queue_rate.map_or(0, |queue_rate| queue_rate.running)
        }
    };
    match queue_rate.and_then(|queue_rate| queue_rate.rate) {
        Some(rate) if rate > 0.0 => {
            Duration::try_from_secs_f64(ahead as f64 / rate).unwrap_or(Duration::MAX)
        }
        Some(_) | None => WAIT_DEFAULT,
    }
}

fn whole_seconds(wait: Duration, wait_max: Duration) -> Duration {
    let up = u64::from(wait.subsec_nanos() > 0);
    Duration::from_secs(wait.as_secs().saturating_add(up)).clamp(WAIT_MIN, wait_max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use store::{Counts, ManualClock, Queue};

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn queue_rate(due: u64, running: u64, rate: Option<f64>) -> Option<QueueRate> {
        Some(QueueRate { due, running, departures: 0, rate })
    }

    #[track_caller]
    fn check(queue_rate: Option<QueueRate>, position: WaitPosition, expected: u64) {
        let wait_max = if position == WaitPosition::Due || position == WaitPosition::Running {
            WAIT_MAX
        } else {
            NOT_DUE_WAIT_MAX
        };
        assert_eq!(whole_seconds(estimate(queue_rate, position), wait_max), seconds(expected));
    }

    #[test]
    fn a_due_job_waits_for_the_jobs_ahead_of_it() {
        check(queue_rate(100, 5, Some(10.0)), WaitPosition::Due, 10);
        check(queue_rate(101, 5, Some(10.0)), WaitPosition::Due, 11);
        check(queue_rate(1, 0, Some(1_000.0)), WaitPosition::Due, 1);
        check(queue_rate(1_000_000, 0, Some(0.5)), WaitPosition::Due, 60);
        check(queue_rate(u64::MAX, 0, Some(f64::MIN_POSITIVE)), WaitPosition::Due, 60);
    }

    #[test]
    fn the_wait_for_a_running_job_is_the_average_run_time() {
        check(queue_rate(100, 30, Some(10.0)), WaitPosition::Running, 3);
        check(queue_rate(100, 0, Some(10.0)), WaitPosition::Running, 1);
    }

    #[test]
    fn a_queue_without_a_rate_gets_the_default_wait() {
        check(queue_rate(100, 1, None), WaitPosition::Due, 5);
        check(queue_rate(100, 1, Some(0.0)), WaitPosition::Due, 5);
        check(queue_rate(100, 1, None), WaitPosition::Running, 5);
        check(None, WaitPosition::Running, 5);
    }

    #[test]
    fn the_first_in_a_queue_is_soon_done() {
        check(None, WaitPosition::Due, 1);
        check(queue_rate(0, 7, Some(0.1)), WaitPosition::Due, 1);
    }

    #[test]
    fn a_job_that_is_not_due_waits_for_its_due_time() {
        check(
            queue_rate(100, 1, Some(1.0)),
            WaitPosition::NotDue(Duration::from_millis(61_001)),
            62,
        );
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
        let first = QueueRate::default().next(&depth(100, 90, 5), None);
        assert_eq!((first.departures, first.rate), (5, None), "one sample shows no rate");
        let still = first.next(&depth(100, 90, 5), Some(seconds(5)));
        assert_eq!(still.rate, None, "nor do two equal samples");
        let second = first.next(&depth(120, 85, 5), Some(seconds(5)));
        assert_eq!((second.departures, second.rate), (30, Some(5.0)));
        let same = second.next(&depth(120, 84, 5), Some(Duration::ZERO));
        assert_eq!(same.rate, Some(5.0), "no time went by");
    }

    #[test]
    fn the_rate_decays_slowly_and_only_while_jobs_are_due() {
        let busy = QueueRate { due: 1, departures: 100, rate: Some(10.0), running: 0 };
        let still = busy.next(&depth(100, 1, 0), Some(seconds(1)));
        let rate = still.rate.unwrap();
        assert!((9.0..9.1).contains(&rate), "it decays slowly: {rate}");
        let later = still.next(&depth(100, 1, 0), Some(seconds(100))).rate.unwrap();
        assert!(later > 0.0 && later < 0.001, "{later}");
        let idle = QueueRate { due: 0, ..busy };
        assert_eq!(idle.next(&depth(100, 0, 0), Some(seconds(100))).rate, Some(10.0));
    }

    #[test]
    fn a_redrive_is_no_movement_back() {
        let busy = QueueRate { due: 1, departures: 100, rate: Some(10.0), running: 0 };
        let back = busy.next(&depth(100, 5, 0), Some(seconds(1)));
        assert!(back.departures == 95 && back.rate.unwrap() > 9.0, "{back:?}");
    }

    struct Fixture {
        retry_after_estimator: RetryAfterEstimator,
        clock: Arc<ManualClock>,
    }

    impl Fixture {
        fn new() -> Self {
            let clock = Arc::new(ManualClock::at(Timestamp::from_unix_ms(1_800_000_000_000)));
            Fixture { retry_after_estimator: RetryAfterEstimator::default(), clock }
        }

        fn update(&self, submitted: u64, due: u64) {
            self.retry_after_estimator
                .update(self.clock.read().monotonic, &[depth(submitted, due, 0)]);
        }

        fn wait(&self, tenant: &Tenant) -> Duration {
            self.retry_after_estimator.wait(
                &*self.clock,
                tenant,
                &JobType::parse("email").unwrap(),
                WaitPosition::Due,
            )
        }
    }

    #[test]
    fn old_rates_are_ignored() {
        let (fixture, tenant) = (Fixture::new(), Tenant::default_tenant());
        assert_eq!(fixture.wait(&tenant), seconds(1));
        fixture.update(100, 100);
        assert_eq!(fixture.wait(&tenant), seconds(5));
        fixture.clock.pass(seconds(1));
        fixture.update(100, 96);
        assert_eq!(fixture.wait(&tenant), seconds(24));
        assert_eq!(
            fixture.wait(&Tenant::parse("stranger").unwrap()),
            seconds(1),
            "no other tenant's"
        );
        fixture.clock.pass(RATES_VALID_FOR);
        assert_eq!(fixture.wait(&tenant), seconds(24));
        fixture.clock.pass(Duration::from_millis(1));
        assert_eq!(fixture.wait(&tenant), seconds(1), "the rates are too old");
    }

    #[test]
    fn a_new_queue_has_a_rate_from_its_first_sample() {
        let (fixture, tenant) = (Fixture::new(), Tenant::default_tenant());
        fixture.retry_after_estimator.update(fixture.clock.read().monotonic, &[]);
        fixture.clock.pass(seconds(2));
        fixture.update(40, 20);
        assert_eq!(fixture.wait(&tenant), seconds(2));
    }
}
