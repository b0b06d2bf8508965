//! One batch: one transaction, and what its callers are told.

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

/// What stays together in one transaction.
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
        let notification = self.news_of(&entries);
        let told = !notification.is_empty();
        match self.store.execute(requests, notification) {
            Ok(replies) => self.answer(BatchOutcome::well(entries, replies), told),
            // Something that one of them touches is broken. Alone it harms nobody else.
            Err(StoreError::Damaged(_)) if entries.len() > 1 => {
                let rest = entries.split_off(entries.len() / 2);
                self.run_batch(entries);
                self.run_batch(rest);
            }
            // There is no room for more jobs, but what ends them makes some: nobody is refused a report
            // because somebody else hands over a job.
            Err(StoreError::Full(_)) if is_mixed(&entries) => {
                let (begin, finish) = entries.into_iter().partition(Entry::begins);
                self.run_batch(finish);
                self.run_batch(begin);
            }
            Err(error) => self.answer(BatchOutcome::badly(entries, error), false),
        }
    }

    /// What others are to know as soon as this is committed. Where claims are in it, only its end tells what is left for others.
    fn news_of(&self, entries: &[Entry]) -> Notification {
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

    fn answer(&self, mut done: BatchOutcome, told: bool) {
        let (watched, listened) = (self.watchers.are_there(), self.has_listeners() && !told);
        let touched = (watched || listened).then(|| done.touched());
        let mut leases = done.leases();
        // What is left for others, and not what was taken: a job that stays here wakes nobody elsewhere.
        let notification = listened.then(|| Notification {
            touched: touched.as_ref().is_some_and(Touched::is_something),
            ..done.left_over(&leases).notification()
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
        // Others come after those who wait here.
        notification.into_iter().for_each(|notification| self.notify_peers(notification));
        // A claim and its repetition may meet in one batch and get the same leases: those go back only
        // if nobody heard of them.
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

    /// Lets those claims wait on that got nothing, and marks those ready that may want what is
    /// left.
    fn repark(&self, done: &mut BatchOutcome, leases: &Leases) {
        let mut state = self.state();
        if state.claims.is_empty() {
            return;
        }
        let asked: BTreeSet<u64> = done.claims.iter().map(|(claim, _)| claim.number).collect();
        let left = done.left_over(leases);
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
    fn well(entries: Vec<Entry>, replies: Vec<Reply>) -> Self {
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

    fn badly(entries: Vec<Entry>, error: StoreError) -> Self {
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

    /// The jobs that something may have happened to.
    fn touched(&self) -> Touched {
        let unknown = |error: &StoreError| matches!(error, StoreError::OutcomeUnknown(_));
        let called = self.submissions.iter().map(|(_, replies)| replies.as_ref().err());
        let stood = self.claims.iter().map(|(_, result)| result.as_ref().err());
        if called.chain(stood).flatten().any(unknown) {
            return Touched::Anything;
        }
        let mut ids = Vec::new();
        for (submission, replies) in &self.submissions {
            for (request, reply) in submission.requests.iter().zip(replies.iter().flatten()) {
                reply.iter().for_each(|answer| answered(request, answer, &mut ids));
            }
        }
        let stood = self.claims.iter().filter_map(|(_, result)| result.as_ref().ok());
        ids.extend(stood.flatten().map(|claimed| claimed.job.id()));
        Touched::Jobs(ids)
    }

    fn leases(&self) -> Leases {
        let called = self.submissions.iter().filter_map(|(_, replies)| replies.as_ref().ok());
        let stood = self.claims.iter().filter_map(|(_, result)| result.as_ref().ok());
        let claimed = called.flat_map(|replies| claimed_in(replies)).chain(stood.flatten());
        let mut leases = Leases::new();
        claimed.for_each(|claimed| *leases.entry(claimed.job.id()).or_default() += 1);
        leases
    }

    /// What was offered and may still be there.
    fn left_over(&self, leases: &Leases) -> WorkHints<'_> {
        let happened = |replies: &Replies| match replies {
            Ok(_) | Err(StoreError::OutcomeUnknown(_)) => true,
            Err(StoreError::Unavailable(_) | StoreError::Full(_) | StoreError::Damaged(_)) => false,
        };
        let submissions = self.submissions.iter().filter(|(_, replies)| happened(replies));
        let hints = submissions.flat_map(|(submission, _)| &submission.hints);
        let taken = |job: JobId| leases.contains_key(&job);
        let mut left = WorkHints::of(hints.filter(|hint| !hint.job().is_some_and(taken)));
        // Claims have their turn last. Where one looked and found nothing, nothing can be started now.
        // One that got something may only have been given what it held before.
        for (claim, result) in &self.claims {
            if matches!(result, Ok(jobs) if jobs.is_empty()) {
                left.jobs.retain(|queue, _| !claim.filter.wants(queue));
            }
        }
        left
    }
}

/// The jobs that a request which was carried out is about.
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

    /// Whether it hands over jobs.
    fn begins(&self) -> bool {
        self.submission().is_some_and(|submission| submission.requests.iter().any(Request::begins))
    }

    fn len(&self) -> usize {
        match self {
            Entry::Submission(submission) => submission.requests.len(),
            Entry::Claim(_) => 1,
        }
    }

    /// Adds what the store is asked. A copy: a batch that has to be split is asked again.
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

/// The same failure, as often as it has to be told.
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
