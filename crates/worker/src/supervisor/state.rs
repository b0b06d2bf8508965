//! The state of a runner: its leases, and how many jobs of each type run.
//!
//! One lock guards all of it. Handler threads take it only to report how an attempt ended. The
//! first report of an attempt counts.

use super::{handler_pool::HandlerPool, poller::TypePoller};
use crate::{
    attempt::{self, Attempt, AttemptEnd, RunnerContext, StopReason},
    backend::{Backend, ClaimedJob, LeaseStatus},
    runner::RunnerStats,
};
use async_task::Task;
use engine::{ClaimId, Heartbeat, JobId, JsonText, LeaseToken, ProgressReport, ReleaseReason};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, Weak},
    time::Duration,
};
use tokio::{
    sync::{Notify, mpsc},
    time::Instant,
};
use tracing::{Span, info, warn};

pub(crate) struct RunnerState {
    pub(super) backend: Arc<dyn Backend>,
    pub(super) context: Arc<RunnerContext>,
    pub(super) pollers: Vec<TypePoller>,
    pub(super) pool: HandlerPool,
    /// Notified when a claim was answered: there may be handlers to watch and leases to keep.
    pub(super) claimed: Notify,
    reports: mpsc::UnboundedSender<AttemptReport>,
    /// Names this run of the process in claims.
    run_id: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    leases: HashMap<LeaseToken, HeldLease>,
    loads: Vec<Load>,
    claim_count: u64,
    reported: usize,
    refused_reports: usize,
}

#[derive(Clone, Copy, Default)]
struct Load {
    running: usize,
    /// Handlers that have ended and whose report has not been taken.
    unreported: usize,
    /// Nothing runs or waits to be reported, and the last claim brought nothing.
    idle: bool,
}

/// A job that is leased to this runner.
struct HeldLease {
    attempt: Arc<Attempt>,
    poller: usize,
    /// The handler's task, as long as it may run.
    task: Option<Task<()>>,
    /// When the supervisor cuts the handler off.
    cut_at: Option<Instant>,
    /// Whether the end of the attempt was reported.
    ended: bool,
    /// This runner does not hold the job's lease any more.
    lost: bool,
    heartbeat_at: Instant,
}

/// An attempt that has ended and is to be reported.
pub(crate) struct AttemptReport {
    pub(super) poller: usize,
    pub(super) id: JobId,
    pub(super) token: LeaseToken,
    pub(super) end: AttemptEnd,
    /// The handler's last progress, if no heartbeat has sent it.
    pub(super) progress: Option<ProgressReport>,
}

/// How long a handler may run on after its job's lease was lost.
const LOST_GRACE: Duration = Duration::from_secs(5);
/// The longest time between heartbeats, however long leases are: they bring the cancels.
const HEARTBEAT_EVERY_MAX: Duration = Duration::from_secs(5);

impl RunnerState {
    pub(crate) fn new(
        backend: Arc<dyn Backend>,
        context: Arc<RunnerContext>,
        pollers: Vec<TypePoller>,
        pool: HandlerPool,
        run_id: String,
    ) -> (Arc<Self>, mpsc::UnboundedReceiver<AttemptReport>) {
        let (reports, receiver) = mpsc::unbounded_channel();
        let loads = vec![Load::default(); pollers.len()];
        let state = Mutex::new(State { loads, ..State::default() });
        let claimed = Notify::new();
        let runner =
            RunnerState { backend, context, pollers, pool, claimed, reports, run_id, state };
        (Arc::new(runner), receiver)
    }

    pub(super) fn next_claim(&self) -> ClaimId {
        let mut state = self.lock();
        state.claim_count += 1;
        ClaimId::parse(&format!("{}-{}", self.run_id, state.claim_count))
            .expect("the run id and a number are a valid claim id")
    }

    /// Takes the answer of a claim. Jobs that arrive while the runner stops are given back at no
    /// cost.
    pub(super) fn accept(self: &Arc<Self>, poller: usize, jobs: Vec<ClaimedJob>) {
        let mut state = self.lock();
        let load = &mut state.loads[poller];
        load.idle = jobs.is_empty() && load.running + load.unreported == 0;
        for job in jobs {
            if self.context.stopping.is_cancelled() {
                self.release_undelivered(&mut state, poller, &job);
            } else {
                self.start_attempt(&mut state, poller, job);
            }
        }
        drop(state);
        self.claimed.notify_waiters();
    }

    fn release_undelivered(&self, state: &mut State, poller: usize, job: &ClaimedJob) {
        state.loads[poller].unreported += 1;
        let (id, token) = (job.info.id, job.info.token);
        let end = AttemptEnd::released(ReleaseReason::Undelivered);
        drop(self.reports.send(AttemptReport { poller, id, token, end, progress: None }));
    }

    fn start_attempt(self: &Arc<Self>, state: &mut State, poller: usize, job: ClaimedJob) {
        let ClaimedJob { info, payload } = job;
        if state.leases.contains_key(&info.token) {
            return; // a repeated claim brings jobs that are here already
        }
        let now = Instant::now();
        let worker = self.pollers[poller].worker.clone();
        let attempt = Attempt::new(info, worker, self.context.clone());
        let task = self.pool.spawn(run(Arc::downgrade(self), poller, attempt.clone(), payload));
        state.loads[poller].running += 1;
        let lease = HeldLease {
            cut_at: now.checked_add(attempt.job.timeout),
            attempt,
            poller,
            task: Some(task),
            ended: false,
            lost: false,
            heartbeat_at: now,
        };
        state.leases.insert(lease.attempt.job.token, lease);
    }

    /// Records how an attempt ended, as its handler says, or the supervisor that cuts it off. The
    /// first report counts. The slot is free at once, so that the claim for the next job shares a
    /// commit with the report on this one.
    fn record_end(&self, token: LeaseToken, end: AttemptEnd) {
        let mut state = self.lock();
        let lease = state.leases.get_mut(&token).filter(|lease| !lease.ended);
        let Some(lease) = lease else { return };
        lease.ended = true;
        let (poller, id) = (lease.poller, lease.attempt.job.id);
        let progress = lease.attempt.signals().progress.take();
        state.loads[poller].running -= 1;
        state.loads[poller].unreported += 1;
        drop(state);
        self.pollers[poller].freed.notify_one();
        // The receiver is gone only with the runner; then the lease runs out, and the job runs
        // again.
        drop(self.reports.send(AttemptReport { poller, id, token, end, progress }));
    }

    /// Forgets leases whose reports were taken or finally refused.
    pub(super) fn forget_reported(&self, reports: &[(usize, LeaseToken)]) {
        let mut state = self.lock();
        state.reported += reports.len();
        for (poller, token) in reports {
            state.leases.remove(token);
            state.loads[*poller].unreported -= 1;
            self.pollers[*poller].freed.notify_one();
        }
    }

    /// Ends what has taken too long; says whether there is anything to watch.
    pub(super) fn cut_off_late(&self) -> bool {
        let now = Instant::now();
        let mut state = self.lock();
        let late = |lease: &&mut HeldLease| lease.cut_at.is_some_and(|at| at <= now);
        let late: Vec<_> =
            state.leases.values_mut().filter(late).map(HeldLease::take_task).collect();
        let has_leases = !state.leases.is_empty();
        drop(state);
        for (attempt, task) in late {
            let end = attempt::timed_out(attempt.job.timeout);
            self.cut_off(&attempt, task, end, StopReason::TimedOut);
        }
        has_leases
    }

    /// Gives back everything that still runs, because the runner stops. Returns the number of
    /// attempts.
    pub(super) fn release_all(&self) -> usize {
        let mut state = self.lock();
        let unfinished = state.leases.values().filter(|lease| !lease.ended).count();
        let running: Vec<_> = state.leases.values_mut().map(HeldLease::take_task).collect();
        drop(state);
        for (attempt, task) in running {
            let end = AttemptEnd::released(ReleaseReason::Released);
            self.cut_off(&attempt, task, end, StopReason::Stopping);
        }
        unfinished
    }

    /// Cuts a handler off. The end of the attempt is recorded first: a handler that learns that it
    /// should stop reports "cancelled", although no client cancelled the job. The task is dropped
    /// while no lock is held, because that may run code of the handler.
    fn cut_off(
        &self,
        attempt: &Attempt,
        task: Option<Task<()>>,
        end: AttemptEnd,
        reason: StopReason,
    ) {
        self.record_end(attempt.job.token, end);
        attempt.stop(reason);
        drop(task);
    }

    /// The heartbeats that are due: a third of the lease is used up, or the handler made progress.
    pub(super) fn due_heartbeats(
        &self,
        poller: usize,
        now: Instant,
    ) -> Vec<(Arc<Attempt>, Heartbeat)> {
        let due = |lease: &&HeldLease| {
            let every = (lease.attempt.job.lease / 3).min(HEARTBEAT_EVERY_MAX);
            lease.poller == poller
                && (now >= lease.heartbeat_at + every || lease.attempt.signals().progress.is_some())
        };
        let heartbeat = |lease: &HeldLease| (lease.attempt.clone(), lease.attempt.heartbeat());
        self.lock().leases.values().filter(due).map(heartbeat).collect()
    }

    /// Takes the answer to a heartbeat that was sent at `sent_at`.
    pub(super) fn heartbeat_answered(
        &self,
        token: LeaseToken,
        status: LeaseStatus,
        sent_at: Instant,
    ) {
        let mut state = self.lock();
        let Some(lease) = state.leases.get_mut(&token) else { return };
        lease.heartbeat_at = sent_at;
        match status {
            LeaseStatus::Kept => {}
            LeaseStatus::CancelRequested => lease.attempt.stop(StopReason::Cancelled),
            LeaseStatus::Lost => lease.mark_lost(),
        }
    }

    /// Tells handlers that their leases have run out without an answer. They are not cut off, and
    /// their end is still reported: if no other worker has taken the job meanwhile, the token still
    /// counts.
    pub(super) fn notify_expired(&self) {
        if !self.backend.leases_expire_when_unreachable() {
            return;
        }
        let now = Instant::now();
        for lease in self.lock().leases.values() {
            let HeldLease { attempt, heartbeat_at, ended, .. } = lease;
            if now >= *heartbeat_at + attempt.job.lease && attempt.stop_reason().is_none() && !ended
            {
                attempt
                    .span()
                    .in_scope(|| warn!("the lease expired: no heartbeat was answered in time"));
                attempt.stop(StopReason::LeaseLost);
            }
        }
    }

    /// Logs something about a job that is held here, within its span.
    pub(super) fn log_about(&self, token: LeaseToken, log: impl FnOnce()) {
        let span = self.lock().leases.get(&token).map(|lease| lease.attempt.span());
        span.unwrap_or_else(Span::none).in_scope(log);
    }

    pub(super) fn count_refused_report(&self) {
        self.lock().refused_reports += 1;
    }

    pub(super) fn has_leases(&self) -> bool {
        !self.lock().leases.is_empty()
    }

    /// How many more jobs a poller takes: one for each free slot, and none while reports pile up.
    pub(super) fn free_slots(&self, poller: usize) -> usize {
        let Load { running, unreported, .. } = self.lock().loads[poller];
        let slots = self.pollers[poller].slots;
        let free = slots.saturating_sub(running);
        free.min((2 * slots).saturating_sub(running + unreported))
    }

    pub(super) fn is_idle(&self) -> bool {
        self.lock().loads.iter().all(|load| load.idle)
    }

    pub(crate) fn stats(&self) -> RunnerStats {
        let state = self.lock();
        RunnerStats {
            slots: self.pollers.iter().map(|poller| poller.slots).sum(),
            running: state.loads.iter().map(|load| load.running).sum(),
            unreported: state.loads.iter().map(|load| load.unreported).sum(),
            reported: state.reported,
            refused_reports: state.refused_reports,
            stuck_threads: self.pool.stuck_count(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no code of ours panics while it holds the runner's state")
    }
}

impl HeldLease {
    /// Marks the lease as lost. The handler has a moment to notice.
    fn mark_lost(&mut self) {
        if self.lost || self.ended {
            return;
        }
        self.lost = true;
        self.attempt.span().in_scope(|| info!("the lease was lost: the handler is asked to stop"));
        self.attempt.stop(StopReason::LeaseLost);
        let grace_end = Instant::now() + LOST_GRACE;
        self.cut_at = Some(self.cut_at.map_or(grace_end, |cut_at| cut_at.min(grace_end)));
    }

    /// Takes what is needed to [cut the handler off](RunnerState::cut_off).
    fn take_task(&mut self) -> (Arc<Attempt>, Option<Task<()>>) {
        self.cut_at = None;
        (self.attempt.clone(), self.task.take())
    }
}

/// An attempt on the pool. It holds the runner weakly: a handler that never ends keeps none alive.
async fn run(runner: Weak<RunnerState>, poller: usize, attempt: Arc<Attempt>, payload: JsonText) {
    let Some(handler) = runner.upgrade().map(|runner| runner.pollers[poller].handler.clone())
    else {
        return;
    };
    let end = attempt::run(&handler, payload, &attempt).await;
    if let Some(runner) = runner.upgrade() {
        runner.record_end(attempt.job.token, end);
    }
}
