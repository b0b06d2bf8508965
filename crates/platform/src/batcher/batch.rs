//! One batch: one transaction, and the answers to its callers.

use super::{
    batch_queue::BatchQueue,
    submission::{Replies, Submission, claimed_in},
    waiting_claims::{BatchedClaim, ClaimResult},
    work_hint::WorkHints,
};
use crate::{
    request::{TypedRequest, expect_claimed},
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
        entries.iter().for_each(|entry| entry.push_requests(&mut requests));
        let notification = self.notification_of(&entries);
        let already_notified = !notification.is_empty();
        match self.store.execute(requests, notification) {
            Ok(replies) => {
                self.answer(BatchOutcome::from_replies(entries, replies), already_notified)
            }
            // One of the entries touches damaged data. Halving the batch isolates it, so that it
            // fails alone.
            Err(StoreError::Damaged(_)) if entries.len() > 1 => {
                let rest = entries.split_off(entries.len() / 2);
                self.run_batch(entries);
                self.run_batch(rest);
            }
            // The disk is full for new jobs, but ending jobs frees space. So the batch runs again
            // without the submits, and the reports of workers succeed.
            Err(StoreError::Full(_)) if is_mixed(&entries) => {
                let (submits, others) = entries.into_iter().partition(Entry::submits_jobs);
                self.run_batch(others);
                self.run_batch(submits);
            }
            Err(error) => self.answer(BatchOutcome::from_error(entries, error), false),
        }
    }

    /// What peers should know as soon as this batch commits. Returns nothing for a batch with
    /// claims: only its replies show which work is left for other nodes.
    fn notification_of(&self, entries: &[Entry]) -> Notification {
        if !self.has_peers() || entries.iter().any(Entry::has_claim) {
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

    fn answer(&self, mut outcome: BatchOutcome, already_notified: bool) {
        let (has_watches, must_notify_peers) =
            (self.watchers.has_watches(), self.has_peers() && !already_notified);
        let touched = (has_watches || must_notify_peers).then(|| outcome.touched());
        let mut leases = outcome.leases();
        // Only unclaimed work: a job that this node claimed must not wake workers of other nodes.
        let notification = must_notify_peers.then(|| Notification {
            touched: touched.as_ref().is_some_and(Touched::has_any),
            ..outcome.unclaimed_work(&leases).notification()
        });
        self.repark(&mut outcome, &leases);
        let parents = outcome.parents_of_ended();
        let mut undelivered: Vec<Claimed> = Vec::new();
        for (submission, replies) in outcome.submissions {
            if let Err(Ok(replies)) = submission.sender.send(replies) {
                undelivered.extend(claimed_in(&replies).cloned());
            }
        }
        for (claim, result) in outcome.claims {
            if let Err(Ok(jobs)) = claim.sender.send(result) {
                undelivered.extend(jobs);
            }
        }
        // Peers are notified after the claims that wait on this node got their answers.
        notification.into_iter().for_each(|notification| self.notify_peers(notification));
        // A claim and its repetition may meet in one batch and get the same leases. Such a lease
        // goes back only if none of its answers was received.
        undelivered.retain(|claimed| {
            let answers = leases.get_mut(&claimed.job.id()).expect("it was counted");
            *answers -= 1;
            *answers == 0
        });
        self.release(&undelivered);
        self.resume_parents(parents);
        if let Some(touched) = touched.filter(|_| has_watches) {
            self.watchers.notify(&touched);
        }
    }

    /// Lets claims that got no job wait on, and marks claims ready that may want the unclaimed
    /// work.
    fn repark(&self, outcome: &mut BatchOutcome, leases: &Leases) {
        let mut state = self.state();
        if state.claims.is_empty() {
            return;
        }
        let batched_claims: BTreeSet<u64> =
            outcome.claims.iter().map(|(claim, _)| claim.number).collect();
        let unclaimed = outcome.unclaimed_work(leases);
        state.claims.mark_ready(|number, filter| {
            !batched_claims.contains(&number) && unclaimed.may_serve(filter)
        });
        let answered =
            |(claim, result): (BatchedClaim, ClaimResult)| state.claims.end(claim, result);
        outcome.claims = outcome.claims.drain(..).filter_map(answered).collect();
    }
}

/// How many answers of a transaction give the lease of a job.
type Leases = BTreeMap<JobId, usize>;

impl BatchOutcome {
    fn from_replies(entries: Vec<Entry>, replies: Vec<Reply>) -> Self {
        let requests: usize = entries.iter().map(Entry::len).sum();
        assert_eq!(requests, replies.len(), "a store gives one reply for each request");
        let mut replies = replies.into_iter();
        let mut outcome = BatchOutcome::default();
        for entry in entries {
            match entry {
                Entry::Submission(submission) => {
                    let replies_of_one = replies.by_ref().take(submission.requests.len()).collect();
                    outcome.submissions.push((submission, Ok(replies_of_one)));
                }
                Entry::Claim(claim) => {
                    let reply = replies.next().expect("it was counted");
                    let answer = reply.expect("a claim is never refused");
                    outcome.claims.push((claim, Ok(expect_claimed(answer))));
                }
            }
        }
        outcome
    }

    fn from_error(entries: Vec<Entry>, error: StoreError) -> Self {
        let error = error_copies(error);
        let mut outcome = BatchOutcome::default();
        for entry in entries {
            match entry {
                Entry::Submission(submission) => {
                    outcome.submissions.push((submission, Err(error())))
                }
                Entry::Claim(claim) => outcome.claims.push((claim, Err(error()))),
            }
        }
        outcome
    }

    /// The jobs that this batch may have changed.
    fn touched(&self) -> Touched {
        let unknown = |error: &StoreError| matches!(error, StoreError::OutcomeUnknown(_));
        let from_submissions = self.submissions.iter().map(|(_, replies)| replies.as_ref().err());
        let from_claims = self.claims.iter().map(|(_, result)| result.as_ref().err());
        if from_submissions.chain(from_claims).flatten().any(unknown) {
            return Touched::Anything;
        }
        let mut ids = Vec::new();
        for (submission, replies) in &self.submissions {
            for (request, reply) in submission.requests.iter().zip(replies.iter().flatten()) {
                reply.iter().for_each(|answer| add_touched_jobs(request, answer, &mut ids));
            }
        }
        let from_claims = self.claims.iter().filter_map(|(_, result)| result.as_ref().ok());
        ids.extend(from_claims.flatten().map(|claimed| claimed.job.id()));
        Touched::Jobs(ids)
    }

    /// The parents of jobs that have ended.
    fn parents_of_ended(&self) -> BTreeSet<JobId> {
        let replies = self.submissions.iter().filter_map(|(_, replies)| replies.as_ref().ok());
        let mut parents = BTreeSet::new();
        for answer in replies.flatten().flatten() {
            add_parents(answer, &mut parents);
        }
        parents
    }

    fn leases(&self) -> Leases {
        let from_submissions =
            self.submissions.iter().filter_map(|(_, replies)| replies.as_ref().ok());
        let from_claims = self.claims.iter().filter_map(|(_, result)| result.as_ref().ok());
        let claimed =
            from_submissions.flat_map(|replies| claimed_in(replies)).chain(from_claims.flatten());
        let mut leases = Leases::new();
        claimed.for_each(|claimed| *leases.entry(claimed.job.id()).or_default() += 1);
        leases
    }

    /// The hinted work that may still be unclaimed.
    fn unclaimed_work(&self, leases: &Leases) -> WorkHints<'_> {
        let may_be_committed = |replies: &Replies| match replies {
            // Refused requests brought no work.
            Ok(replies) => replies.iter().any(Result::is_ok),
            Err(StoreError::OutcomeUnknown(_)) => true,
            Err(StoreError::Unavailable(_) | StoreError::Full(_) | StoreError::Damaged(_)) => false,
        };
        let submissions = self.submissions.iter().filter(|(_, replies)| may_be_committed(replies));
        let hints = submissions.flat_map(|(submission, _)| &submission.hints);
        let is_leased = |job: JobId| leases.contains_key(&job);
        let mut unclaimed = WorkHints::of(hints.filter(|hint| !hint.job().is_some_and(is_leased)));
        // Claims run last in a batch. Where one got no job, no job of its queues can start now. A
        // claim that got jobs proves nothing: a repeated claim gets the leases that it already had.
        for (claim, result) in &self.claims {
            if matches!(result, Ok(jobs) if jobs.is_empty()) {
                unclaimed.jobs.retain(|queue, _| !claim.filter.wants(queue));
            }
        }
        unclaimed
    }
}

/// Adds the jobs that an executed request touched.
fn add_touched_jobs(request: &Request, answer: &Answer, ids: &mut Vec<JobId>) {
    match (request, answer) {
        (Request::All(parts), Answer::All(answers)) => {
            parts
                .iter()
                .zip(answers)
                .for_each(|(part, answer)| add_touched_jobs(part, answer, ids));
        }
        (Request::Command { id, .. }, _) => ids.push(*id),
        (_, Answer::Claimed(jobs)) => ids.extend(jobs.iter().map(|claimed| claimed.job.id())),
        (_, Answer::Submitted(jobs)) => ids.extend(jobs.iter().map(|job| job.job_id)),
        (_, Answer::Job(_) | Answer::All(_) | Answer::Done) => {}
    }
}

fn add_parents(answer: &Answer, parents: &mut BTreeSet<JobId>) {
    match answer {
        Answer::All(parts) => parts.iter().for_each(|part| add_parents(part, parents)),
        Answer::Job(answer) => parents.extend(answer.parent_of_ended()),
        Answer::Submitted(_) | Answer::Claimed(_) | Answer::Done => {}
    }
}

fn is_mixed(entries: &[Entry]) -> bool {
    let submits = entries.iter().filter(|entry| entry.submits_jobs()).count();
    (1..entries.len()).contains(&submits)
}

impl Entry {
    fn submission(&self) -> Option<&Submission> {
        match self {
            Entry::Submission(submission) => Some(submission),
            Entry::Claim(_) => None,
        }
    }

    fn has_claim(&self) -> bool {
        let is_claim = |request: &Request| matches!(request, Request::Claim { .. });
        self.submission().is_none_or(|submission| submission.requests.iter().any(is_claim))
    }

    /// Whether it submits jobs.
    fn submits_jobs(&self) -> bool {
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
    fn push_requests(&self, requests: &mut Vec<Request>) {
        match self {
            Entry::Submission(submission) => requests.extend_from_slice(&submission.requests),
            Entry::Claim(BatchedClaim { filter, .. }) => {
                let (scope, claim_request) = (filter.scope.clone(), filter.claim_request.clone());
                requests.push(TypedRequest::claim(scope, claim_request).request);
            }
        }
    }
}

/// Returns a function that copies the failure of a batch, one copy for each caller.
fn error_copies(error: StoreError) -> impl Fn() -> StoreError {
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
