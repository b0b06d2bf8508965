//! The queue between callers and writer threads.
//!
//! # When a writer begins a batch
//!
//! One writer at a time gathers the next batch. It begins when as many submissions wait as the last
//! batch had, because callers come back with their next submission after an answer.
//! Without this rule, callers that submit one job after another would split into groups. Each group
//! would wait for the commits of the others, and fewer callers would share a commit. The wait is
//! short, and after a batch of less than [`Limits::gather_min`] the writer does not wait at all: a
//! lone caller is never delayed, and an idle writer has no timer.

use super::{
    Limits, UNPOISONED,
    batch::Entry,
    lane::{BatchLoad, Lane},
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
use engine::{Command, JobId, ReleaseReason, Scope};
use std::{collections::BTreeSet, sync::Arc, time::Duration};

/// How long the writer waits for answered callers to come back: a part of the duration of a commit.
const RETURN_MAX: Duration = Duration::from_micros(200);
/// How long the writer waits for the callers of another batch under way: the duration of a slow
/// commit.
const COMMIT_MAX: Duration = Duration::from_millis(5);

pub(super) struct BatchQueue {
    pub(super) store: Arc<dyn Execute>,
    limits: Limits,
    state: Mutex<State>,
    /// Idle writers wait for it.
    wakeup: Condvar,
    /// The gathering writer waits for it.
    gather_wakeup: Condvar,
    pub(super) watchers: Arc<Watchers>,
    /// Whether there are other nodes that want notifications of this node's writes.
    pub(super) has_peers: AtomicBool,
}

/// Submissions and claims that wait, and the state of the writers. No thread wakes a future while
/// it holds this lock, because a waker may run foreign code.
pub(super) struct State {
    /// Reports of workers. They go first into every batch: a late report costs a lease, and then
    /// the job runs twice. They cannot starve the rest for long, because only claimed jobs are
    /// reported on.
    pub(super) reports: Lane,
    pub(super) ordinary: Lane,
    pub(super) claims: WaitingClaims,
    last_number: u64,
    is_closing: bool,
    /// Writer threads that have not ended yet.
    writers: usize,
    /// Writers that wait for work. Where there are none, callers skip the wake-up, which would cost
    /// a system call for every request.
    idle_writers: usize,
    is_gathering: bool,
    /// How many submissions the next batch waits for: as many as the last one had, or 0 where the
    /// last one had few.
    expected_submissions: usize,
}

impl BatchQueue {
    pub(super) fn new(store: Arc<dyn Execute>, limits: Limits) -> Self {
        let state = State {
            reports: Lane::new(limits.waiting_bytes_max),
            ordinary: Lane::new(limits.waiting_bytes_max),
            claims: WaitingClaims::default(),
            last_number: 0,
            is_closing: false,
            writers: limits.writers.max(1),
            idle_writers: 0,
            is_gathering: false,
            expected_submissions: 0,
        };
        BatchQueue {
            has_peers: AtomicBool::new(false),
            store,
            limits,
            state: Mutex::new(state),
            wakeup: Condvar::new(),
            gather_wakeup: Condvar::new(),
            watchers: Arc::default(),
        }
    }

    pub(super) fn run_writer(&self) {
        let _guard = PanicGuard(self);
        let mut answered = 0;
        while let Some(batch) = self.next_batch(answered) {
            answered = count_submissions(&batch);
            self.run_batch(batch);
        }
    }

    /// The entries of the next batch; `None` when the queue is closed and empty and the writer may
    /// end. The writer has just `answered` so many submissions.
    fn next_batch(&self, answered: usize) -> Option<Vec<Entry>> {
        let mut state = self.state();
        // After a large batch a writer gathers although nothing waits yet: the callers are about to
        // return, and one wake-up is enough for all of them.
        let mut awaits_callers = answered >= self.limits.gather_min;
        if awaits_callers {
            state.expected_submissions = answered;
        }
        if state.is_gathering {
            self.gather_wakeup.notify_one(); // one batch fewer is under way, so its wait is shorter
        }
        loop {
            if state.is_closing || (!state.is_gathering && (awaits_callers || state.has_work())) {
                state = self.gather(state);
                let batch = state.take(&self.limits);
                if !batch.is_empty() {
                    if state.submissions() > 0 {
                        self.notify_writer(state); // the rest goes to another writer
                    }
                    return Some(batch);
                }
                awaits_callers = false;
            }
            if state.is_closing {
                state.writers -= 1;
                return None;
            }
            state.idle_writers += 1;
            state = self.wakeup.wait(state).expect(UNPOISONED);
            state.idle_writers -= 1;
        }
    }

    /// Waits until as many submissions wait as the next batch expects, or until the time is up.
    fn gather<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.is_gathering = true;
        let mut has_time = true;
        while has_time && !state.is_gathered() {
            let limit = if state.is_other_batch_running() { COMMIT_MAX } else { RETURN_MAX };
            (state, has_time) = wait_at_most(limit, &self.gather_wakeup, &self.state, state);
        }
        state.is_gathering = false;
        state
    }

    /// Accepts a submission, or refuses it because the queue is closing.
    pub(super) fn enqueue(&self, submission: Submission) -> Result<u64, StoreError> {
        let mut state = self.state();
        if state.is_closing {
            return Err(closing_error());
        }
        let number = state.enqueue(submission);
        self.notify_writer(state);
        Ok(number)
    }

    /// Notes that the caller of a submission is gone. A submission in the overflow is removed.
    pub(super) fn abandon_submission(&self, number: u64) {
        let mut state = self.state();
        let abandoned = state.reports.abandon(number).or_else(|| state.ordinary.abandon(number));
        drop(state);
        drop(abandoned);
    }

    pub(super) fn claim_waiting(
        &self,
        filter: ClaimFilter,
        sender: OneshotSender<ClaimResult>,
    ) -> u64 {
        let mut state = self.state();
        let number = state.next_number();
        if state.is_closing {
            drop(state);
            drop(sender.send(Err(closing_error())));
            return number;
        }
        state.claims.add(number, filter, sender);
        self.notify_writer(state);
        number
    }

    /// Removes a waiting claim whose caller is gone.
    pub(super) fn abandon_claim(&self, number: u64) {
        let removed = self.state().claims.remove(number);
        drop(removed);
    }

    /// Removes a waiting claim, and answers its caller with no jobs.
    pub(super) fn withdraw(&self, number: u64) {
        let sender = self.state().claims.withdraw(number);
        drop(sender.map(|sender| sender.send(Ok(Vec::new()))));
    }

    pub(super) fn has_peers(&self) -> bool {
        self.has_peers.load(Ordering::SeqCst)
    }

    pub(super) fn notify_peers(&self, notification: Notification) {
        if self.has_peers() && !notification.is_empty() {
            self.store.notify_peers(notification);
        }
    }

    /// Gives back jobs that were leased to a caller that is gone.
    pub(super) fn release<'a>(&self, jobs: impl IntoIterator<Item = &'a Claimed>) {
        // If the queue is closed, the leases run out by themselves.
        self.enqueue_unawaited(jobs.into_iter().filter_map(release_undelivered).collect());
    }

    /// Lets parents go on whose last child may have ended. If the queue is closed, a sweeper finds
    /// them.
    pub(super) fn resume_parents(&self, parents: BTreeSet<JobId>) {
        let resume =
            |id| Request::Command { scope: Scope::All, id, command: Command::ChildrenEnded };
        self.enqueue_unawaited(parents.into_iter().map(resume).collect());
    }

    /// Enqueues requests for whose replies no caller waits, unless no writer is left.
    fn enqueue_unawaited(&self, requests: Vec<Request>) {
        if requests.is_empty() {
            return;
        }
        let (submission, _) = Submission::new(requests);
        let mut state = self.state();
        if state.writers == 0 {
            return;
        }
        state.enqueue(submission);
        self.notify_writer(state);
    }

    /// Wakes the gathering writer if its batch is complete, or else an idle one. Writers at work
    /// check the queue again before they sleep.
    pub(super) fn notify_writer(&self, state: MutexGuard<'_, State>) {
        let writer = match state.is_gathering {
            true => state.is_gathered().then_some(&self.gather_wakeup),
            false => (state.idle_writers > 0).then_some(&self.wakeup),
        };
        drop(state);
        if let Some(writer) = writer {
            writer.notify_one();
        }
    }

    /// Accepts no more submissions, and answers the claims that wait.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.is_closing = true;
        let withdrawn = state.claims.withdraw_all();
        drop(state);
        self.wakeup.notify_all();
        self.gather_wakeup.notify_all();
        for sender in withdrawn {
            drop(sender.send(Ok(Vec::new())));
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

    /// Whether as many submissions wait as the next batch expects. A worker that can get a job
    /// does not wait for the commit of another writer.
    fn is_gathered(&self) -> bool {
        let has_ready_claim = self.is_other_batch_running() && self.claims.has_ready();
        self.is_closing || has_ready_claim || self.submissions() >= self.expected_submissions
    }

    /// Whether another writer has a batch under way, beside the gathering one.
    fn is_other_batch_running(&self) -> bool {
        self.writers > self.idle_writers + 1
    }

    fn enqueue(&mut self, mut submission: Submission) -> u64 {
        submission.number = self.next_number();
        let number = submission.number;
        let lane = if submission.is_report() { &mut self.reports } else { &mut self.ordinary };
        lane.push(submission);
        number
    }

    fn take(&mut self, limits: &Limits) -> Vec<Entry> {
        let mut load = BatchLoad::new(limits);
        let mut submissions = self.reports.take(&mut load);
        submissions.extend(self.ordinary.take(&mut load));
        let is_large = submissions.len() >= limits.gather_min;
        self.expected_submissions = if is_large { submissions.len() } else { 0 };
        let hints = submissions.iter().flat_map(|submission| &submission.hints);
        let claims = self.claims.pick(hints, limits.batch_jobs_max).into_iter().map(Entry::Claim);
        submissions.into_iter().map(Entry::Submission).chain(claims).collect()
    }

    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }
}

fn count_submissions(batch: &[Entry]) -> usize {
    batch.iter().filter(|entry| matches!(entry, Entry::Submission(_))).count()
}

/// A request to release a job whose worker never received it. The job loses no attempt.
fn release_undelivered(claimed: &Claimed) -> Option<Request> {
    let token = claimed.job.lease()?.token;
    let command =
        Command::Release { token, reason: ReleaseReason::Undelivered, delay: Duration::ZERO };
    Some(Request::Command { scope: Scope::All, id: claimed.job.id(), command })
}

fn closing_error() -> StoreError {
    StoreError::Unavailable(Some("the node is closing".into()))
}

/// Cleans up after a writer if the store panics.
struct PanicGuard<'a>(&'a BatchQueue);

impl Drop for PanicGuard<'_> {
    /// A store that panicked gets no more batches: waiting callers get an error. The callers of its
    /// batch got theirs when their senders were dropped.
    fn drop(&mut self) {
        if !thread::panicking() {
            return;
        }
        let mut state = self.0.state();
        state.writers -= 1;
        state.is_closing = true;
        let submissions: Vec<Submission> =
            state.reports.clear().chain(state.ordinary.clear()).collect();
        let withdrawn = state.claims.withdraw_all();
        drop(state);
        self.0.wakeup.notify_all();
        self.0.gather_wakeup.notify_all();
        submissions.into_iter().for_each(|one| drop(one.sender.send(Err(closing_error()))));
        withdrawn.into_iter().for_each(|sender| drop(sender.send(Err(closing_error()))));
        self.0.watchers.close();
    }
}
