//! Stores and rules with one mistake in them. Real systems of this kind have made each mistake.
//!
//! The rules themselves do not know of this: a mistake changes the engine's input or decision, the
//! store's request, or the caller's answer.

use crate::sim_clock::SimClock;
use engine::{
    Answer, Change, Claim, ClaimId, Command, Decided, Decision, Effect, EndingKind, Facts, Job,
    JobId, Lease, LeaseState, LeaseToken, Policy, Scope, State, Tenant, Timestamp, WorkerId,
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use store::{Request, Rules, StoreError};

/// The mistakes that the simulation has to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// A settle is accepted with any token.
    CompleteWithoutFence,
    /// The sweeper overwrites what it finds, ended jobs included.
    SweepWithoutGuard,
    /// The caller is answered although the commit failed.
    AckBeforeCommit,
    /// Outcomes are announced after the transaction, and lost when the process dies between.
    OutcomeOutsideTransaction,
    /// A key is checked before the transaction, not in it.
    CheckThenInsertKey,
    /// Attempts are counted when they fail, so that a lost worker costs nothing.
    AttemptsCountedOnFailure,
    /// Time comes from the clock of the caller's machine.
    WorkersClock,
    /// An unknown outcome is reported as "nothing happened".
    CommitErrorTakenForNo,
    /// An item may name its tenant: here its subject does, where that is a tenant's name.
    ItemTenantTrusted,
    /// A settled attempt leaves no record, so its repeat is a lost lease.
    SettleNotRemembered,
    /// A failed attempt is retried although a cancel was requested.
    CancelForgotten,
    /// A release gives its attempt back every time.
    ReleasesUnbounded,
    /// A repeated claim id claims again.
    ClaimNotRemembered,
    /// Claims always begin with the same queue.
    QueuesNotTakenInTurn,
    /// A job may start before its time.
    DueTimeIgnored,
    /// A heartbeat may shorten a lease.
    HeartbeatShortens,
    /// A redrive forgets to start a new life.
    RedriveKeepsAttempts,
    /// Lost workers are never counted.
    LossesNotCounted,
    /// A step is finished with any token.
    StepWithoutFence,
    /// Within a priority, the newest job is served first.
    LastComeFirstServed,
}

/// The engine, with a mistake before or after it.
pub(crate) struct MistakenRules {
    pub(crate) mistake: Mistake,
    pub(crate) clock: Arc<SimClock>,
}

impl Rules for MistakenRules {
    fn decide(&self, job: &Job, command: &Command, facts: &Facts<'_>) -> Decision {
        let (mut input, mut facts) = (job.clone(), *facts);
        let lenient_policy = Policy { lost_workers_max: u32::MAX, ..facts.policy.clone() };
        match (self.mistake, command) {
            (Mistake::CompleteWithoutFence, Command::Settle { token, .. }) => {
                facts.epoch = token.epoch;
                set_token(&mut input, token);
            }
            (Mistake::StepWithoutFence, Command::FinishStep { token, .. }) => {
                facts.epoch = token.epoch;
                input.state = State::Running(lapsed_lease(*token, facts.now));
            }
            (Mistake::SweepWithoutGuard, Command::LeaseExpiry) if job.status().is_ended() => {
                let token = LeaseToken { epoch: facts.epoch, fence: job.fence, secret: 0 };
                input.state = State::Running(lapsed_lease(token, facts.now));
            }
            (Mistake::AttemptsCountedOnFailure, Command::Settle { ending, .. }) => {
                input.life.attempt += u32::from(matches!(ending.kind, EndingKind::Failed { .. }));
            }
            (Mistake::CancelForgotten, Command::Settle { ending, .. }) => {
                input.life.cancel_requested &= !matches!(ending.kind, EndingKind::Failed { .. });
            }
            (Mistake::CancelForgotten, Command::Timeout | Command::LeaseExpiry) => {
                input.life.cancel_requested = false;
            }
            (Mistake::ReleasesUnbounded, Command::Release { .. }) => input.life.releases = 0,
            (Mistake::LossesNotCounted, Command::LeaseExpiry) => facts.policy = &lenient_policy,
            (Mistake::SettleNotRemembered, _) => facts.record = None,
            (Mistake::WorkersClock, _) => facts.now = self.clock.callers_wall(),
            _ => {}
        }
        let mut decided = engine::decide(&input, command, &facts)?;
        amend(&mut decided, |change| self.spoil(job, command, facts.now, change));
        Ok(decided)
    }

    fn claim(&self, job: &Job, claim: &Claim, facts: &Facts<'_>) -> Decision {
        let (mut input, mut facts) = (job.clone(), *facts);
        match (self.mistake, &mut input.state) {
            (Mistake::DueTimeIgnored, State::Queued { run_at }) => *run_at = facts.now.min(*run_at),
            (Mistake::WorkersClock, _) => facts.now = self.clock.callers_wall(),
            _ => {}
        }
        let mut decided = engine::claim(&input, claim, &facts)?;
        amend(&mut decided, |change| match (self.mistake, job.life.attempt) {
            (Mistake::AttemptsCountedOnFailure, before) => set_attempt(change, before),
            (Mistake::OutcomeOutsideTransaction, _) => lose_some_events(change),
            _ => {}
        });
        Ok(decided)
    }

    fn due_until(&self, now: Timestamp) -> Timestamp {
        if self.mistake == Mistake::DueTimeIgnored { Timestamp::MAX } else { now }
    }

    fn next_due(&self, due_jobs: &mut dyn DoubleEndedIterator<Item = JobId>) -> Option<JobId> {
        if self.mistake == Mistake::LastComeFirstServed {
            due_jobs.next_back()
        } else {
            due_jobs.next()
        }
    }

    fn last_served(&self, counter: Option<u64>) -> Option<u64> {
        counter.filter(|_| self.mistake != Mistake::QueuesNotTakenInTurn)
    }

    fn key_holder<'a>(&self, holder: Option<&'a Job>, now: Timestamp) -> Option<&'a Job> {
        // A submit of the same moment checked before the first one was stored.
        let is_visible = |job: &&Job| job.envelope.created_at < now;
        holder.filter(|job| self.mistake != Mistake::CheckThenInsertKey || is_visible(job))
    }
}

impl MistakenRules {
    /// Changes what the engine has decided about `job`.
    fn spoil(&self, job: &Job, command: &Command, now: Timestamp, change: &mut Change) {
        match (self.mistake, command) {
            (Mistake::OutcomeOutsideTransaction, _) => lose_some_events(change),
            (Mistake::StepWithoutFence, Command::FinishStep { .. }) => {
                change.job.state = job.state.clone();
            }
            (Mistake::SweepWithoutGuard, Command::LeaseExpiry) => {
                change.entry.iter_mut().for_each(|entry| entry.from = Some(job.status()));
            }
            (Mistake::HeartbeatShortens, Command::Heartbeat { .. }) => shorten(change, now),
            (Mistake::RedriveKeepsAttempts, Command::Redrive { .. }) => {
                set_attempt(change, job.life.attempt);
            }
            (Mistake::ReleasesUnbounded, Command::Release { .. }) => {
                change.job.life.releases += job.life.releases;
            }
            (Mistake::LossesNotCounted, Command::LeaseExpiry) => {
                change.job.life.losses = job.life.losses;
            }
            _ => {}
        }
    }
}

/// Changes a decision, and its answer with it.
fn amend(decided: &mut Decided, spoil: impl FnOnce(&mut Change)) {
    let Effect::Change(change) = &mut decided.effect else { return };
    spoil(change);
    let expires_at = change.job.lease().map(|lease| lease.expires_at);
    match (&mut decided.answer, expires_at) {
        (Answer::Job(job), _) => **job = change.job.clone(),
        (Answer::Setback(setback), _) => setback.job = change.job.clone(),
        (
            Answer::LeaseState(
                LeaseState::Extended(answered_until) | LeaseState::CancelRequested(answered_until),
            ),
            Some(until),
        ) => {
            *answered_until = until;
        }
        _ => {}
    }
}

fn set_attempt(change: &mut Change, attempt: u32) {
    change.job.life.attempt = attempt;
    change.entry.iter_mut().for_each(|entry| entry.attempt = attempt);
}

/// The announcement is a transaction of its own, and sometimes the process dies between the two.
fn lose_some_events(change: &mut Change) {
    if change.job.id().to_bytes()[15].is_multiple_of(8) {
        change.event = None;
    }
}

fn shorten(change: &mut Change, now: Timestamp) {
    if let State::Running(lease) = &mut change.job.state {
        lease.expires_at = (now + lease.length / 2).min(lease.deadline);
    }
}

/// Makes `token` the current one.
fn set_token(job: &mut Job, token: &LeaseToken) {
    if let State::Running(lease) = &mut job.state {
        lease.token = *token;
    }
}

/// A lease whose worker sent no heartbeat for too long.
fn lapsed_lease(token: LeaseToken, now: Timestamp) -> Lease {
    Lease {
        token,
        scope: Scope::All,
        worker: WorkerId::parse("nobody").expect("lawful"),
        claim: ClaimId::parse("none").expect("lawful"),
        due_at: now,
        started_at: now,
        expires_at: now,
        deadline: now + Duration::from_secs(1),
        length: Duration::ZERO,
    }
}

/// Changes a request on its way to the store.
pub(crate) fn spoil_request(mistake: Mistake, request: &mut Request) {
    static CLAIMS: AtomicU64 = AtomicU64::new(0);
    match (mistake, request) {
        (Mistake::ItemTenantTrusted, Request::Submit(jobs)) => {
            for new in jobs {
                let named = new.subject.as_ref().map(|subject| Tenant::parse(subject.as_str()));
                new.tenant = named.and_then(Result::ok).unwrap_or(new.tenant.clone());
            }
        }
        (Mistake::ClaimNotRemembered, Request::Claim { claim_request, .. }) => {
            let name = format!("unique-{}", CLAIMS.fetch_add(1, Ordering::Relaxed));
            claim_request.claim = ClaimId::parse(&name).expect("lawful");
        }
        _ => {}
    }
}

/// A caller's answer when the outcome of its transaction is unknown.
pub(crate) fn outcome_unknown(mistake: Option<Mistake>) -> StoreError {
    if mistake == Some(Mistake::CommitErrorTakenForNo) {
        return StoreError::Unavailable(None);
    }
    StoreError::OutcomeUnknown(None)
}
