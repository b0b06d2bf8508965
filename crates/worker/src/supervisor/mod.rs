//! The supervisor of a runner. Everything but handlers happens here, from claims to reports.
//!
//! It has one thread with a runtime of its own, so that no handler can hold up a heartbeat. Its
//! data is the [`RunnerState`]. Four kinds of tasks work on it: a poller for each job type, the
//! heartbeats, the reports, and the watch over handlers that take too long.

mod handler_pool;
mod heartbeats;
mod poller;
mod reports;
mod state;

pub(crate) use handler_pool::HandlerPool;
pub(crate) use poller::TypePoller;
pub(crate) use state::{AttemptReport, RunnerState};

use crate::runner::RunnerStats;
use futures_util::future::join_all;
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
    time::{Instant, sleep, sleep_until, timeout},
};
use tracing::{debug, info};

/// How often the supervisor checks for stuck threads, while handlers run.
const REPLACE_EVERY: Duration = Duration::from_millis(5);
/// After how many of these checks it also checks for handlers whose time is over.
const CUT_OFF_EVERY: u32 = 4;

/// The grace time within which the supervisor must stop, once it is asked to.
pub(crate) type Stop = Option<Duration>;

/// How a runner stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StopSummary {
    /// Jobs that were given back because their handlers did not end in time.
    pub released: usize,
    /// Reports that the store did not take in time. Their leases run out, and the jobs run again.
    pub unreported: usize,
}

impl RunnerState {
    /// Runs the supervisor until it is asked to stop.
    pub(crate) async fn supervise(
        self: Arc<Self>,
        reports: mpsc::UnboundedReceiver<AttemptReport>,
        mut stop: watch::Receiver<Stop>,
    ) -> StopSummary {
        let pollers = 0..self.pollers.len();
        let pollers: Vec<_> =
            pollers.map(|poller| tokio::spawn(poller::poll(self.clone(), poller))).collect();
        tokio::spawn(watch_handlers(self.clone()));
        let heartbeats = tokio::spawn(heartbeats::send(self.clone()));
        tokio::spawn(reports::send(self.clone(), reports));
        // An error means that the sender is dropped, so the runner is gone.
        drop(stop.wait_for(Option::is_some).await);
        let summary = self.drain(&pollers, &stop).await;
        heartbeats.abort(); // a heartbeat after the sign-off would register the workers again
        self.sign_off().await;
        summary
    }

    /// Waits until no handler runs and a claim of each type has brought no job.
    pub(crate) async fn wait_idle(&self) {
        loop {
            let claimed = self.claimed.notified();
            if self.is_idle() {
                return;
            }
            claimed.await;
        }
    }

    /// Takes no more jobs, lets handlers end, gives back the rest, and reports everything.
    async fn drain(&self, pollers: &[JoinHandle<()>], stop: &watch::Receiver<Stop>) -> StopSummary {
        let started = Instant::now();
        self.context.stopping.cancel();
        info!(running = self.stats().running, "no more jobs are taken");
        // A claim may be on its way to the store, and the jobs that it brings must be given back.
        let claims_done = || pollers.iter().all(JoinHandle::is_finished);
        let is_idle = || claims_done() && self.stats().running == 0;
        wait_until(is_idle, || started + cut_off_after(grace(stop))).await;
        let released = self.release_all();
        let is_settled = || {
            let RunnerStats { running, unreported, .. } = self.stats();
            claims_done() && running + unreported == 0
        };
        wait_until(is_settled, || started + grace(stop).max(REPORT_TIME_MIN)).await;
        let unreported = self.stats().unreported;
        info!(released, unreported, "the runner stopped");
        StopSummary { released, unreported }
    }

    /// Signs the workers off, so that nodes need not wait until they are missed. It is a courtesy:
    /// a server that cannot be reached does not hold up the runner.
    async fn sign_off(&self) {
        // All at once: one after another, many job types on a slow line would not be done in time.
        let sign_off = self.pollers.iter().map(async |poller| {
            let worker = &poller.worker;
            if let Err(error) = self.backend.leave(worker).await {
                let error: &dyn std::error::Error = &error;
                debug!(error, %worker, "a worker could not sign off");
            }
        });
        drop(timeout(REPORT_TIME_MIN, join_all(sign_off)).await);
    }
}

/// How long stopping may take, as of now. The caller may shorten it while the runner stops.
fn grace(stop: &watch::Receiver<Stop>) -> Duration {
    stop.borrow().unwrap_or_default().min(GRACE_MAX)
}

/// When handlers are cut off: the last part of the grace time is for reports.
fn cut_off_after(grace: Duration) -> Duration {
    grace - (grace / 5).min(REPORT_TIME_MAX)
}

/// A longer grace time is pointless, and clocks cannot count much further.
const GRACE_MAX: Duration = Duration::from_secs(365 * 86_400);
/// How long reports are tried even where there is no grace time at all.
const REPORT_TIME_MIN: Duration = Duration::from_millis(500);
const REPORT_TIME_MAX: Duration = Duration::from_secs(2);

async fn wait_until(is_done: impl Fn() -> bool, end: impl Fn() -> Instant) {
    const CHECK_EVERY: Duration = Duration::from_millis(5);
    while !is_done() && Instant::now() < end() {
        sleep_until(end().min(Instant::now() + CHECK_EVERY)).await;
    }
}

/// Cuts off handlers that take too long, and replaces threads that are stuck in one.
async fn watch_handlers(runner: Arc<RunnerState>) {
    loop {
        let claimed = runner.claimed.notified();
        if !runner.cut_off_late() {
            claimed.await;
        }
        for _ in 0..CUT_OFF_EVERY {
            runner.pool.replace_stuck();
            sleep(REPLACE_EVERY).await;
        }
    }
}
