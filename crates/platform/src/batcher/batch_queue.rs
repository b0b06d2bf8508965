//! Where callers and writers meet.
//!
//! # When a writer begins a batch
//!
//! One writer at a time gathers the next batch. It begins as soon as as many submissions wait as
//! the last batch had, because callers who were answered come back with their next one. Without
//! this, callers who hand over one job after another would split into groups of which each waits
//! for the commits of the others, and fewer would share one. The writer does not wait for long, and
//! after a batch of less than [`Limits::gather_min`] it does not wait at all: a caller who is alone
//! waits for nobody, and an idle writer has no timer.

use super::{
    Limits, UNPOISONED,
    batch::Entry,
    lane::{Lane, Load},
    submission::Submission,
    wait_at_most::wait_at_most,
    waiting_claims::{ClaimFilter, ClaimResult, WaitingClaims},
};
use crate::watch::Watchers;
use ::store::{
    Claimed, Execute, Notification, OneshotSender, Request, StoreError,
    sync::{
        Condvar, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
        thread,
    },
};
use engine::{Command, ReleaseReason, Scope};
use std::{sync::Arc, time::Duration};

/// Callers who were answered have this long to come back: a part of what a commit takes.
const RETURN_MAX: Duration = Duration::from_micros(200);
/// A batch that is under way has this long to end, so that its callers can come back: what a slow
/// commit takes.
const COMMIT_MAX: Duration = Duration::from_millis(5);

pub(super) struct BatchQueue {
    pub(super) store: Arc<dyn Execute>,
    limits: Limits,
    state: Mutex<State>,
    /// Writers with nothing to do wait for it.
    wakeup: Condvar,
    /// The writer that gathers waits for it.
    gathered: Condvar,
    pub(super) watchers: Arc<Watchers>,
    /// Whether there are other nodes that want to know what this one does.
    pub(super) company: AtomicBool,
}

/// What waits. Nobody is woken with this in hand: that may run code of others.
pub(super) struct State {
    /// What workers report. It goes first into every batch: a report that comes late costs a lease,
    /// and then the job runs twice. It cannot starve the rest for long, because there is nothing to
    /// report where nothing was claimed.
    pub(super) reports: Lane,
    pub(super) ordinary: Lane,
    pub(super) claims: WaitingClaims,
    number: u64,
    closing: bool,
    /// How many have not gone yet.
    writers: usize,
    /// How many of them wait for something to do. Where none does, nobody need be woken: that is a
    /// call of the system, and there would be one for each request.
    sleeping: usize,
    gathering: bool,
    /// How many submissions the next batch waits for: as many as the last one had, or none where
    /// those were few.
    expected: usize,
}

impl BatchQueue {
    pub(super) fn new(store: Arc<dyn Execute>, limits: Limits) -> Self {
        let state = State {
            reports: Lane::new(limits.waiting_bytes_max),
            ordinary: Lane::new(limits.waiting_bytes_max),
            claims: WaitingClaims::default(),
            number: 0,
            closing: false,
            writers: limits.writers.max(1),
            sleeping: 0,
            gathering: false,
            expected: 0,
        };
        BatchQueue {
            company: AtomicBool::new(false),
            store,
            limits,
            state: Mutex::new(state),
            wakeup: Condvar::new(),
            gathered: Condvar::new(),
            watchers: Arc::default(),
        }
    }

    pub(super) fn write(&self) {
        let _guard = PanicGuard(self);
        let mut answered = 0;
        while let Some(batch) = self.next_batch(answered) {
            answered = submissions_in(&batch);
            self.run_batch(batch);
        }
    }

    /// What is there now, or what comes next; nothing when all is done and the writer may go. It
    /// has `answered` so many submissions just now.
    fn next_batch(&self, answered: usize) -> Option<Vec<Entry>> {
        let mut state = self.state();
        // After a large batch a writer gathers although nothing waits yet: its callers are on their
        // way, and one wake-up is enough for all of them.
        let mut awaits_callers = answered >= self.limits.gather_min;
        if awaits_callers {
            state.expected = answered;
        }
        if state.gathering {
            self.gathered.notify_one(); // one batch less is under way: it waits for less long
        }
        loop {
            if state.closing || (!state.gathering && (awaits_callers || state.has_work())) {
                state = self.gather(state);
                let batch = state.take(&self.limits);
                if !batch.is_empty() {
                    if state.submissions() > 0 {
                        self.notify_writer(state); // what did not fit is another writer's
                    }
                    return Some(batch);
                }
                awaits_callers = false;
            }
            if state.closing {
                state.writers -= 1;
                return None;
            }
            state.sleeping += 1;
            state = self.wakeup.wait(state).expect(UNPOISONED);
            state.sleeping -= 1;
        }
    }

    /// Waits until those are here whom the next batch waits for, or for long enough.
    fn gather<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.gathering = true;
        let mut has_time = true;
        while has_time && !state.is_gathered() {
            let limit = if state.is_beside_others() { COMMIT_MAX } else { RETURN_MAX };
            (state, has_time) = wait_at_most(limit, &self.gathered, &self.state, state);
        }
        state.gathering = false;
        state
    }

    /// Takes a submission in, or refuses it because we close.
    pub(super) fn enter(&self, submission: Submission) -> Result<u64, StoreError> {
        let mut state = self.state();
        if state.closing {
            return Err(closed());
        }
        let number = state.enter(submission);
        self.notify_writer(state);
        Ok(number)
    }

    /// A caller is gone. If its submission was held, it goes as well.
    pub(super) fn abandon(&self, number: u64) {
        let mut state = self.state();
        let held = state.reports.abandon(number).or_else(|| state.ordinary.abandon(number));
        drop(state);
        drop(held);
    }

    pub(super) fn stand(&self, filter: ClaimFilter, oneshot: OneshotSender<ClaimResult>) -> u64 {
        let mut state = self.state();
        let number = state.next_number();
        if state.closing {
            drop(state);
            drop(oneshot.keep(Err(closed())));
            return number;
        }
        state.claims.join(number, filter, oneshot);
        self.notify_writer(state);
        number
    }

    /// A claim waits no longer, and nobody cares.
    pub(super) fn leave(&self, number: u64) {
        let left = self.state().claims.leave(number);
        drop(left);
    }

    /// A claim waits no longer, and somebody wants to know how it ended.
    pub(super) fn withdraw(&self, number: u64) {
        let withdrawn = self.state().claims.withdraw(number);
        drop(withdrawn.map(|oneshot| oneshot.keep(Ok(Vec::new()))));
    }

    pub(super) fn has_listeners(&self) -> bool {
        self.company.load(Ordering::SeqCst)
    }

    pub(super) fn notify_peers(&self, notification: Notification) {
        if self.has_listeners() && !notification.is_empty() {
            self.store.notify_peers(notification);
        }
    }

    /// Gives jobs back that were leased to somebody who is gone.
    pub(super) fn release<'a>(&self, jobs: impl IntoIterator<Item = &'a Claimed>) {
        let requests: Vec<Request> = jobs.into_iter().filter_map(undelivered).collect();
        if requests.is_empty() {
            return;
        }
        let (submission, _) = Submission::new(requests); // nobody waits, but a report is carried out all the same
        let mut state = self.state();
        if state.writers == 0 {
            return; // the lease's own end will do it
        }
        state.enter(submission);
        self.notify_writer(state);
    }

    /// Wakes the writer that gathers, if it has what it waits for, or else one that sleeps. Those
    /// who work look again before they sleep.
    pub(super) fn notify_writer(&self, state: MutexGuard<'_, State>) {
        let writer = match state.gathering {
            true => state.is_gathered().then_some(&self.gathered),
            false => (state.sleeping > 0).then_some(&self.wakeup),
        };
        drop(state);
        if let Some(writer) = writer {
            writer.notify_one();
        }
    }

    /// Takes nobody in any more, and sends home who only stands.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.closing = true;
        let dismissed = state.claims.dismiss();
        drop(state);
        self.wakeup.notify_all();
        self.gathered.notify_all();
        for oneshot in dismissed {
            drop(oneshot.keep(Ok(Vec::new())));
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect(UNPOISONED)
    }
}

impl State {
    fn submissions(&self) -> usize {
        self.reports.submissions.len() + self.ordinary.submissions.len()
    }

    fn has_work(&self) -> bool {
        self.submissions() > 0 || self.claims.has_ready()
    }

    /// Whether those are here whom the next batch waits for. A worker that can be given a job does
    /// not wait for the commit of another writer.
    fn is_gathered(&self) -> bool {
        let has_ready_claim = self.is_beside_others() && self.claims.has_ready();
        self.closing || has_ready_claim || self.submissions() >= self.expected
    }

    /// Whether another writer has a batch under way, beside the one that gathers.
    fn is_beside_others(&self) -> bool {
        self.writers > self.sleeping + 1
    }

    fn enter(&mut self, mut submission: Submission) -> u64 {
        submission.number = self.next_number();
        let number = submission.number;
        let lane = if submission.is_report() { &mut self.reports } else { &mut self.ordinary };
        lane.enter(submission);
        number
    }

    fn take(&mut self, limits: &Limits) -> Vec<Entry> {
        let mut load = Load::new(limits);
        let mut submissions = self.reports.take(&mut load);
        submissions.extend(self.ordinary.take(&mut load));
        let is_large = submissions.len() >= limits.gather_min;
        self.expected = if is_large { submissions.len() } else { 0 };
        let hints = submissions.iter().flat_map(|submission| &submission.hints);
        let claims = self.claims.pick(hints, limits.batch_jobs_max).into_iter().map(Entry::Claim);
        submissions.into_iter().map(Entry::Submission).chain(claims).collect()
    }

    fn next_number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }
}

fn submissions_in(batch: &[Entry]) -> usize {
    batch.iter().filter(|entry| matches!(entry, Entry::Submission(_))).count()
}

/// A request to take a job back whose worker never heard of it; this costs the job nothing.
fn undelivered(claimed: &Claimed) -> Option<Request> {
    let token = claimed.job.lease()?.token;
    let command =
        Command::Release { token, reason: ReleaseReason::Undelivered, delay: Duration::ZERO };
    Some(Request::Job { scope: Scope::All, id: claimed.job.id(), command })
}

fn closed() -> StoreError {
    StoreError::Unavailable(Some("nothing is taken in any more".into()))
}

/// What a writer leaves behind if the store panics.
struct PanicGuard<'a>(&'a BatchQueue);

impl Drop for PanicGuard<'_> {
    /// A store that panicked is not asked again: whoever waits is told so. Whoever was in its batch
    /// learned it before, when the promises in it broke.
    fn drop(&mut self) {
        if !thread::panicking() {
            return;
        }
        let mut state = self.0.state();
        state.writers -= 1;
        state.closing = true;
        let submissions: Vec<Submission> =
            state.reports.clear().chain(state.ordinary.clear()).collect();
        let dismissed = state.claims.dismiss();
        drop(state);
        self.0.wakeup.notify_all();
        self.0.gathered.notify_all();
        submissions.into_iter().for_each(|one| drop(one.oneshot.keep(Err(closed()))));
        dismissed.into_iter().for_each(|oneshot| drop(oneshot.keep(Err(closed()))));
        self.0.watchers.close();
    }
}
