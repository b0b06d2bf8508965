//! Everything that a runner has in hand: its desks, the attempts that run, and what waits to be reported.

use crate::{
    attempt::{self, Attempt, Ended, House, Why},
    crew::Crew,
    desk::Desk,
    port::{Handed, Port, Sign},
};
use async_task::Task;
use engine::{ClaimId, JobId, LeaseToken, ProgressReport, ReleaseReason};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, Weak,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::{Notify, mpsc},
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use tracing::{Span, info, warn};

pub(crate) struct Shop {
    pub(crate) port: Arc<dyn Port>,
    pub(crate) house: Arc<House>,
    pub(crate) desks: Vec<Desk>,
    pub(crate) crew: Crew,
    /// No more jobs are taken.
    pub(crate) closing: CancellationToken,
    /// Rung when there is a handler to watch, and when there is a lease to keep.
    pub(crate) to_watch: Notify,
    pub(crate) to_keep: Notify,
    /// Rung when a claim was answered.
    pub(crate) claimed: Notify,
    held: Mutex<HashMap<LeaseToken, Held>>,
    reports: mpsc::UnboundedSender<Finished>,
    /// Names this run of the process in claims.
    run: String,
    claims: AtomicU64,
    /// How many attempts were reported.
    reported: AtomicUsize,
    /// How many of the reports were refused.
    too_late: AtomicUsize,
}

/// A job that is leased to us.
pub(crate) struct Held {
    pub(crate) attempt: Arc<Attempt>,
    pub(crate) desk: usize,
    /// The handler, as long as it may run.
    task: Option<Task<()>>,
    /// When nobody waits for the handler any longer.
    cut_at: Option<Instant>,
    /// The job is not ours any more.
    lost: bool,
    pub(crate) beaten_at: Instant,
}

/// An attempt that has ended and is to be reported.
pub(crate) struct Finished {
    pub(crate) desk: usize,
    pub(crate) id: JobId,
    pub(crate) token: LeaseToken,
    pub(crate) ended: Ended,
    /// The last thing it said about how far it is, if no heartbeat has told it.
    pub(crate) progress: Option<ProgressReport>,
}

/// A handler whose job is not ours any more has so long to notice.
const COURTESY: Duration = Duration::from_secs(5);

impl Shop {
    pub(crate) fn new(
        port: Arc<dyn Port>,
        house: Arc<House>,
        desks: Vec<Desk>,
        crew: Crew,
        run: String,
    ) -> (Self, mpsc::UnboundedReceiver<Finished>) {
        let (reports, finished) = mpsc::unbounded_channel();
        let shop = Shop {
            port,
            closing: house.stopping.clone(),
            house,
            desks,
            crew,
            to_watch: Notify::new(),
            to_keep: Notify::new(),
            claimed: Notify::new(),
            held: Mutex::default(),
            reports,
            run,
            claims: AtomicU64::new(0),
            reported: AtomicUsize::new(0),
            too_late: AtomicUsize::new(0),
        };
        (shop, finished)
    }

    pub(crate) fn next_claim(&self) -> ClaimId {
        let number = self.claims.fetch_add(1, Ordering::Relaxed);
        ClaimId::parse(&format!("{}-{number}", self.run)).expect("a short name")
    }

    /// Takes jobs that were claimed. What comes when no more are taken goes back, and costs its job nothing.
    pub(crate) fn take(self: &Arc<Self>, desk: usize, jobs: Vec<Handed>) {
        if self.closing.is_cancelled() {
            self.refuse(desk, jobs);
        } else if !jobs.is_empty() {
            self.begin(desk, jobs);
        }
    }

    fn refuse(&self, desk: usize, jobs: Vec<Handed>) {
        for job in jobs.into_iter().map(|handed| handed.brief) {
            self.desks[desk].begun();
            self.desks[desk].ended();
            let reason = ReleaseReason::Undelivered;
            let ended = Ended::GivenBack { reason, delay: Duration::ZERO };
            let finished = Finished { desk, id: job.id, token: job.token, ended, progress: None };
            drop(self.reports.send(finished));
        }
    }

    /// Starts handlers.
    fn begin(self: &Arc<Self>, desk: usize, jobs: Vec<Handed>) {
        let now = Instant::now();
        let mut held = self.held();
        for Handed { brief, payload } in jobs {
            if held.contains_key(&brief.token) {
                continue; // a claim that was repeated brings what we have
            }
            let worker = self.desks[desk].worker.clone();
            let attempt = Attempt::new(brief, worker, self.house.clone());
            self.desks[desk].begun();
            let work = work(Arc::downgrade(self), desk, attempt.clone(), payload);
            let cut_at = now.checked_add(attempt.job.timeout);
            let task = Some(self.crew.spawn(work));
            held.insert(
                attempt.job.token,
                Held { attempt, desk, task, cut_at, lost: false, beaten_at: now },
            );
        }
        drop(held);
        self.to_watch.notify_one();
        self.to_keep.notify_one();
    }

    /// Somebody says how an attempt ended. The first one is believed.
    fn end(&self, desk: usize, attempt: &Attempt, ended: Ended) {
        if !attempt.end() {
            return;
        }
        self.desks[desk].ended();
        let progress = attempt.said().progress.take();
        let finished =
            Finished { desk, id: attempt.job.id, token: attempt.job.token, ended, progress };
        // Nobody hears it when the runner is gone, and then the lease's own end will tell.
        drop(self.reports.send(finished));
    }

    /// Reports were taken or refused for good: those jobs are not ours any more.
    pub(crate) fn settled(&self, reports: impl Iterator<Item = (usize, LeaseToken)>) {
        let mut held = self.held();
        for (desk, token) in reports {
            held.remove(&token);
            self.desks[desk].settled();
            self.reported.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Ends what has taken too long; says whether there is anything to watch.
    pub(crate) fn cut(&self) -> bool {
        let now = Instant::now();
        let mut held = self.held();
        let late = |held: &&mut Held| held.cut_at.is_some_and(|at| at <= now);
        let late: Vec<_> = held.values_mut().filter(late).map(Held::give_up).collect();
        let any = !held.is_empty();
        drop(held);
        for (desk, attempt, task) in late {
            // First it is said how it ended: a handler that hears that it should stop says "cancelled", and
            // nobody cancelled anything.
            self.end(desk, &attempt, attempt::timed_out(attempt.job.timeout));
            attempt.stop(Why::TimedOut);
            drop(task);
        }
        any
    }

    /// Gives everything back that still runs: the runner stops.
    pub(crate) fn give_back(&self) -> usize {
        let running: Vec<_> = self.held().values_mut().map(Held::give_up).collect();
        let unfinished = running.iter().filter(|(_, attempt, _)| !attempt.has_ended()).count();
        for (desk, attempt, task) in running {
            self.end(desk, &attempt, Ended::given_back());
            attempt.stop(Why::Stopping); // afterwards, as above
            drop(task);
        }
        unfinished
    }

    /// A heartbeat that was sent at `sent_at` was answered.
    pub(crate) fn pulse(&self, token: LeaseToken, sign: Sign, sent_at: Instant) {
        let mut held = self.held();
        let Some(held) = held.get_mut(&token) else { return };
        held.beaten_at = sent_at;
        match sign {
            Sign::Kept => {}
            Sign::CancelRequested => held.attempt.stop(Why::Cancelled),
            Sign::Lost => held.lose(),
        }
    }

    /// Tells handlers whose leases have run out unheard. Nobody cuts them off, and how they end is reported:
    /// should nobody have taken the job meanwhile, the token still counts.
    pub(crate) fn lapse(&self, now: Instant) {
        let over = |held: &&Held| now >= held.beaten_at + held.attempt.job.lease;
        for Held { attempt, .. } in self.held().values().filter(over) {
            if attempt.stopped().is_none() && !attempt.has_ended() {
                attempt.span().in_scope(|| warn!("the lease has run out unheard"));
                attempt.stop(Why::LeaseLost);
            }
        }
    }

    /// Says something about a job that we hold, with all that a log line about a job should have.
    pub(crate) fn about(&self, token: LeaseToken, say: impl FnOnce()) {
        let span = self.held().get(&token).map(|held| held.attempt.span());
        span.unwrap_or_else(Span::none).in_scope(say);
    }

    /// Counts a report that was refused.
    pub(crate) fn came_too_late(&self) {
        self.too_late.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn too_late(&self) -> usize {
        self.too_late.load(Ordering::Acquire)
    }

    pub(crate) fn held(&self) -> MutexGuard<'_, HashMap<LeaseToken, Held>> {
        self.held.lock().expect("no code of ours panics with the leases in hand")
    }

    pub(crate) fn running(&self) -> usize {
        self.desks.iter().map(Desk::running).sum()
    }

    pub(crate) fn reported(&self) -> usize {
        self.reported.load(Ordering::Acquire)
    }

    pub(crate) fn unsettled(&self) -> usize {
        self.desks.iter().map(Desk::unsettled).sum()
    }
}

impl Held {
    /// The job is not ours any more. Its handler has a moment to notice, whatever it was told before.
    fn lose(&mut self) {
        if self.lost || self.attempt.has_ended() {
            return;
        }
        self.lost = true;
        self.attempt.span().in_scope(|| info!("the lease was lost"));
        self.attempt.stop(Why::LeaseLost);
        let courtesy = Instant::now() + COURTESY;
        self.cut_at = Some(self.cut_at.map_or(courtesy, |cut_at| cut_at.min(courtesy)));
    }

    /// Nobody waits for the handler any longer. Its task is to be dropped when no lock is held.
    fn give_up(&mut self) -> (usize, Arc<Attempt>, Option<Task<()>>) {
        self.cut_at = None;
        (self.desk, self.attempt.clone(), self.task.take())
    }
}

/// A handler's life on the crew.
async fn work(shop: Weak<Shop>, desk: usize, attempt: Arc<Attempt>, payload: engine::JsonText) {
    let Some(run) = shop.upgrade().map(|shop| shop.desks[desk].run.clone()) else { return };
    let ended = attempt::run(&run, payload, &attempt).await;
    if let Some(shop) = shop.upgrade() {
        shop.end(desk, &attempt, ended);
    }
}
