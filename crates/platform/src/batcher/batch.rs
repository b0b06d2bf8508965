//! One batch: one transaction, and the answers to its callers.

use super::{
    batch_queue::BatchQueue,
    submission::{Replies, Submission, claimed_in},
    waiting_claims::{BatchedClaim, ClaimResult},
    work_hint::WorkHints,
};
use crate::{
    request::{TypedRequest, read_claimed},
    watch::Touched,
};
use ::store::{Answer, Claimed, Notification, Reply, Request, StoreError};
use engine::JobId;
use std::{
    collections::{BTreeMap, BTreeSet},
    error::Error,
    sync::Arc,
};

/// Requests that stay together in one transaction.
pub(super) enum Entry {
    Submission(Submission),
    Claim(BatchedClaim),
}

#[derive(Default)]
struct BatchOutcome {
    submissions: Vec<(Submission, Replies)>,
    claims: Vec<(BatchedClaim, ClaimResult)>,
}

impl BatchQueue {
    pub(super) fn run_batch(&self, mut entries: Vec<Entry>) {
        let mut requests = Vec::with_capacity(entries.iter().map(Entry::len).sum());
        entries.iter().for_each(|entry| entry.ask(&mut requests));
        let notification = self.notification_of(&entries);
        let notified = !notification.is_empty();
        match self.store.execute(requests, notification) {
            Ok(replies) => self.answer(BatchOutcome::from_replies(entries, replies), notified),
            // One of the entries touches damaged data. Halving the batch isolates it, so that it
            // fails alone.
            Err(StoreError::Damaged(_)) if entries.len() > 1 => {
                let rest = entries.split_off(entries.len() / 2);
                self.run_batch(entries);
                self.run_batch(rest);
            }
            // The disk is full for new jobs, but ending jobs frees space. Without the submits, the
            // reports of workers still succeed.
            Err(StoreError::Full(_)) if is_mixed(&entries) => {
                let (begin, finish) = entries.into_iter().partition(Entry::begins);
                self.run_batch(finish);
                self.run_batch(begin);
            }
            Err(error) => self.answer(BatchOutcome::from_error(entries, error), false),
        }
    }

    /// What peers should know as soon as this batch commits. A batch with claims answers nothing
    /// here: only its replies show what is left for other nodes.
    fn notification_of(&self, entries: &[Entry]) -> Notification {
        if !self.has_listeners() || entries.iter().any(Entry::wants_jobs) {
            return Notification::default();
        }
        let submissions = entries.iter().filter_map(Entry::submission);
        let hints = WorkHints::of(submissions.clone().flat_map(|submission| &submission.hints));
        let touches = |request: &Request| {
            !matches!(
                request,
                Request::Audit(_) | Request::WorkerAlive { .. } | Request::Leave { .. }
            )
        };
        let touched = submissions.flat_map(|submission| &submission.requests).any(touches);
        Notification { touched, ..hints.notification() }
    }

    fn answer(&self, mut done: BatchOutcome, notified: bool) {
        let (watched, listened) = (self.watchers.has_watches(), self.has_listeners() && !notified);
        let touched = (watched || listened).then(|| done.touched());
        let mut leases = done.leases();
        // Only the work that is left: a job that this node claimed must not wake workers elsewhere.
        let notification = listened.then(|| Notification {
            touched: touched.as_ref().is_some_and(Touched::is_something),
            ..done.unclaimed_work(&leases).notification()
        });
        self.repark(&mut done, &leases);
        let mut lost: Vec<Claimed> = Vec::new();
        for (submission, replies) in done.submissions {
            if let Err(Ok(replies)) = submission.oneshot.keep(replies) {
                lost.extend(claimed_in(&replies).cloned());
            }
        }
        for (claim, result) in done.claims {
            if let Err(Ok(jobs)) = claim.oneshot.keep(result) {
                lost.extend(jobs);
            }
        }
        // Peers come after the claims that wait on this node.
        notification.into_iter().for_each(|notification| self.notify_peers(notification));
        // A claim and its repetition may meet in one batch and get the same leases. Such a lease
        // goes back only if none of its answers was received.
        lost.retain(|claimed| {
            let answers = leases.get_mut(&claimed.job.id()).expect("it was counted");
            *answers -= 1;
            *answers == 0
        });
        self.release(&lost);
        if let Some(touched) = touched.filter(|_| watched) {
            self.watchers.tell(&touched);
        }
    }

    /// Lets claims that got nothing wait on, and marks claims ready that may want the work that is
    /// left.
    fn repark(&self, done: &mut BatchOutcome, leases: &Leases) {
        let mut state = self.state();
        if state.claims.is_empty() {
            return;
        }
        let asked: BTreeSet<u64> = done.claims.iter().map(|(claim, _)| claim.number).collect();
        let left = done.unclaimed_work(leases);
        state
            .claims
            .mark_ready(|number, filter| !asked.contains(&number) && left.may_serve(filter));
        let answered =
            |(claim, result): (BatchedClaim, ClaimResult)| state.claims.end(claim, result);
        done.claims = done.claims.drain(..).filter_map(answered).collect();
    }
}

/// How many answers of a transaction give the lease of a job.
type Leases = BTreeMap<JobId, usize>;

impl BatchOutcome {
    fn from_replies(entries: Vec<Entry>, replies: Vec<Reply>) -> Self {
        let requests: usize = entries.iter().map(Entry::len).sum();
        assert_eq!(requests, replies.len(), "a store gives one reply for each request");
        let mut replies = replies.into_iter();
        let mut done = BatchOutcome::default();
        for entry in entries {
            match entry {
                Entry::Submission(submission) => {
                    let own = replies.by_ref().take(submission.requests.len()).collect();
                    done.submissions.push((submission, Ok(own)));
                }
                Entry::Claim(claim) => {
                    let reply = replies.next().expect("it was counted");
                    let answer = reply.expect("a claim is never refused");
                    done.claims.push((claim, Ok(read_claimed(answer))));
                }
            }
        }
        done
    }

    fn from_error(entries: Vec<Entry>, error: StoreError) -> Self {
        let error = shared(error);
        let mut done = BatchOutcome::default();
        for entry in entries {
            match entry {
                Entry::Submission(submission) => done.submissions.push((submission, Err(error()))),
                Entry::Claim(claim) => done.claims.push((claim, Err(error()))),
            }
        }
        done
    }

    /// The jobs that this batch may have changed.
    fn touched(&self) -> Touched {
        let unknown = |error: &StoreError| matches!(error, StoreError::OutcomeUnknown(_));
        let called = self.submissions.iter().map(|(_, replies)| replies.as_ref().err());
        let from_claims = self.claims.iter().map(|(_, result)| result.as_ref().err());
        if called.chain(from_claims).flatten().any(unknown) {
            return Touched::Anything;
        }
        let mut ids = Vec::new();
        for (submission, replies) in &self.submissions {
            for (request, reply) in submission.requests.iter().zip(replies.iter().flatten()) {
                reply.iter().for_each(|answer| answered(request, answer, &mut ids));
            }
        }
        let from_claims = self.claims.iter().filter_map(|(_, result)| result.as_ref().ok());
        ids.extend(from_claims.flatten().map(|claimed| claimed.job.id()));
        Touched::Jobs(ids)
    }

    fn leases(&self) -> Leases {
        let called = self.submissions.iter().filter_map(|(_, replies)| replies.as_ref().ok());
        let from_claims = self.claims.iter().filter_map(|(_, result)| result.as_ref().ok());
        let claimed = called.flat_map(|replies| claimed_in(replies)).chain(from_claims.flatten());
        let mut leases = Leases::new();
        claimed.for_each(|claimed| *leases.entry(claimed.job.id()).or_default() += 1);
        leases
    }

    /// The hinted work that may still be unclaimed.
    fn unclaimed_work(&self, leases: &Leases) -> WorkHints<'_> {
        let happened = |replies: &Replies| match replies {
            Ok(_) | Err(StoreError::OutcomeUnknown(_)) => true,
            Err(StoreError::Unavailable(_) | StoreError::Full(_) | StoreError::Damaged(_)) => false,
        };
        let submissions = self.submissions.iter().filter(|(_, replies)| happened(replies));
        let hints = submissions.flat_map(|(submission, _)| &submission.hints);
        let taken = |job: JobId| leases.contains_key(&job);
        let mut left = WorkHints::of(hints.filter(|hint| !hint.job().is_some_and(taken)));
        // Claims run last in a batch. Where one found nothing, nothing can start now. A claim that
        // got jobs proves nothing: it may have received only what it already held.
        for (claim, result) in &self.claims {
            if matches!(result, Ok(jobs) if jobs.is_empty()) {
                left.jobs.retain(|queue, _| !claim.filter.wants(queue));
            }
        }
        left
    }
}

/// Adds the jobs that a carried-out request is about.
fn answered(request: &Request, answer: &Answer, ids: &mut Vec<JobId>) {
    match (request, answer) {
        (Request::All(parts), Answer::All(answers)) => {
            parts.iter().zip(answers).for_each(|(part, answer)| answered(part, answer, ids));
        }
        (Request::Job { id, .. }, _) => ids.push(*id),
        (_, Answer::Claimed(jobs)) => ids.extend(jobs.iter().map(|claimed| claimed.job.id())),
        (_, Answer::Submitted(jobs)) => ids.extend(jobs.iter().map(|job| job.job_id)),
        (_, Answer::Job(_) | Answer::All(_) | Answer::Done) => {}
    }
}

fn is_mixed(entries: &[Entry]) -> bool {
    let begin = entries.iter().filter(|entry| entry.begins()).count();
    (1..entries.len()).contains(&begin)
}

impl Entry {
    fn submission(&self) -> Option<&Submission> {
        match self {
            Entry::Submission(submission) => Some(submission),
            Entry::Claim(_) => None,
        }
    }

    fn wants_jobs(&self) -> bool {
        let is_claim = |request: &Request| matches!(request, Request::Claim { .. });
        self.submission().is_none_or(|submission| submission.requests.iter().any(is_claim))
    }

    /// Whether it submits jobs.
    fn begins(&self) -> bool {
        self.submission()
            .is_some_and(|submission| submission.requests.iter().any(Request::submits_jobs))
    }

    fn len(&self) -> usize {
        match self {
            Entry::Submission(submission) => submission.requests.len(),
            Entry::Claim(_) => 1,
        }
    }

    /// Appends copies of the requests: a batch that has to be split is executed again.
    fn ask(&self, requests: &mut Vec<Request>) {
        match self {
            Entry::Submission(submission) => requests.extend_from_slice(&submission.requests),
            Entry::Claim(BatchedClaim { filter, .. }) => {
                let (scope, claim_request) = (filter.scope.clone(), filter.claim_request.clone());
                requests.push(TypedRequest::claim(scope, claim_request).request);
            }
        }
    }
}

/// Makes one failure into as many as there are callers.
fn shared(error: StoreError) -> impl Fn() -> StoreError {
    type Cause = Option<Box<dyn Error + Send + Sync>>;
    let (kind, cause): (fn(Cause) -> StoreError, Cause) = match error {
        StoreError::Unavailable(cause) => (StoreError::Unavailable, cause),
        StoreError::Full(cause) => (StoreError::Full, cause),
        StoreError::OutcomeUnknown(cause) => (StoreError::OutcomeUnknown, cause),
        StoreError::Damaged(cause) => (StoreError::Damaged, cause),
    };
    let cause: Option<Arc<dyn Error + Send + Sync>> = cause.map(Arc::from);
    move || kind(cause.clone().map(|cause| Box::new(cause) as Box<_>))
}
