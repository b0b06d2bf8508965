//! THE RULES: what may happen to a job, and what comes of it.
//!
//! Nothing here reads a clock or a disk: facts go in, a [`Decided`] or a [`Refusal`] comes out.
//! That lets the simulation run through a year of failures from one seed. Every path that changes a
//! job goes through here, the sweeper's too: a sweeper that writes "queued" over a finished job is
//! the most common bug of this field.

use crate::{
    attempt::{Ending, EndingDigest, EndingKind},
    command::{
        Answer, Claim, Command, Decided, Decision, Effect, Facts, LeaseState, ReleaseReason,
    },
    field::cut,
    job::{Change, Ended, HistoryNote, Job, Life, Progress, ProgressReport, State, Status},
    lease::{Lease, LeaseToken},
    outcome::{Failure, MESSAGE_BYTES_MAX, failure_codes},
    policy::{Backoff, Policy},
    refusal::Refusal,
    step::{self, StepsChange},
    time::Timestamp,
};
use std::time::Duration;

/// An attempt may be released this often in one life at no cost.
pub const RELEASES_MAX: u32 = 20;

/// A job may be claimed and not started this often at no cost. After that, it counts as an ordinary
/// release. This bounds the history of a job that one broken worker claims again and again.
pub const NOT_STARTED_MAX: u64 = 100;

/// How long a job waits after its first claim that was not started. The wait doubles with each such
/// claim, at most six times. A machine that lacks descriptors for minutes then makes few claims,
/// and other workers get their turn.
const NOT_STARTED_BACKOFF: Backoff =
    Backoff::doubling(Duration::from_secs(1), Duration::from_secs(64));

/// Decides one command about one job.
pub fn decide(job: &Job, command: &Command, facts: &Facts<'_>) -> Decision {
    let facts = &facts.no_earlier_than(job);
    match command {
        Command::Heartbeat { token, progress } => heartbeat(job, token, progress.as_ref(), facts),
        Command::Settle { token, ending } => settle(job, token, ending, facts),
        Command::Release { token, reason, delay } => release(job, token, *reason, *delay, facts),
        Command::Cancel => cancel(job, facts.now),
        Command::Expire => expire(job, facts.now),
        Command::Timeout => timeout(job, facts),
        Command::LeaseExpiry => lease_expiry(job, facts),
        Command::ChildrenEnded => children_ended(job, facts),
        Command::Redrive { max_attempts, reset_steps, payload } => {
            let decided = redrive(job, *max_attempts, *reset_steps, facts.now);
            decided.map(|change| with_job(Change { payload: payload.clone(), ..change }))
        }
        Command::Discard => discard(job, facts.now),
        Command::Erase => erase(job),
        Command::Purge => purge(job, facts),
        Command::BeginStep { token, name } => step::begin(job, token, name, facts),
        Command::FinishStep { token, result, .. } => step::finish(job, token, result, facts),
    }
}

/// Whether a worker may take `job` at `now`. Stores choose jobs by it, and [`claim`] checks it
/// again.
pub fn is_claimable(job: &Job, now: Timestamp) -> bool {
    job.run_at().is_some_and(|run_at| run_at <= now)
        && !has_expired(job, now)
        && job.has_attempts_left()
}

/// What the sweeper does about a job whose time has run out; `None` where nothing is due.
pub fn overdue(job: &Job, policy: &Policy, now: Timestamp) -> Option<Command> {
    match &job.state {
        State::Queued { .. } | State::AwaitingChildren { .. } => {
            has_expired(job, now).then_some(Command::Expire)
        }
        State::Running(lease) if has_timed_out(lease, now) => Some(Command::Timeout),
        State::Running(lease) if has_lapsed(lease, now) => Some(Command::LeaseExpiry),
        State::Running(_) => None,
        State::Completed(_) | State::Failed(_) | State::Poisoned(_) | State::Cancelled(_) => {
            may_be_purged(job, policy, now).then_some(Command::Purge)
        }
    }
}

/// What a jump of the store's clock does to a job: its lease moves by as much. The clock was wrong;
/// the worker was not silent.
pub fn after_clock_jump(job: &Job, by: Duration) -> Option<Change> {
    let lease = job.lease()?.shifted(by);
    Some(Job::without_transition(Job { state: State::Running(lease), ..job.clone() }))
}

/// Decides whether a worker may take a job that its store has chosen.
pub fn claim(job: &Job, claim: &Claim, facts: &Facts<'_>) -> Decision {
    let facts = &facts.no_earlier_than(job);
    if job.status() != Status::Queued {
        return Err(Refusal::NotQueued { status: job.status() });
    }
    let Some(due_at) = job.run_at().filter(|_| is_claimable(job, facts.now)) else {
        return Err(Refusal::NotDue);
    };
    let now = facts.now;
    let fence = job.fence + 1;
    let length = claim.lease.unwrap_or(facts.policy.lease);
    let deadline = now + facts.policy.timeout;
    let lease = Lease {
        token: LeaseToken { epoch: facts.epoch, fence, secret: facts.entropy.0 },
        scope: claim.scope.clone(),
        worker: claim.worker.clone(),
        claim: claim.id.clone(),
        due_at,
        started_at: now,
        expires_at: (now + length).min(deadline),
        deadline,
        length,
    };
    // Counted when the job is claimed, not when it settles: a worker that dies in silence must
    // still use up an attempt, or a job that kills its worker would run forever.
    let life = Life {
        attempt: job.life.attempt + 1,
        started_at: job.life.started_at.or(Some(now)),
        progress: None,
        ..job.life.clone()
    };
    let note = HistoryNote { worker: Some(claim.worker.clone()), ..HistoryNote::default() };
    let mut change = job.transition(State::Running(lease), life, now, note);
    change.job.fence = fence;
    Ok(with_job(change))
}

fn heartbeat(
    job: &Job,
    token: &LeaseToken,
    progress: Option<&ProgressReport>,
    facts: &Facts<'_>,
) -> Decision {
    let Some(lease) = current_lease(job, token, facts) else {
        let lease_state =
            if job.status().is_ended() { LeaseState::Ended } else { LeaseState::Lost };
        return Ok(Decided { effect: Effect::Nothing, answer: Answer::LeaseState(lease_state) });
    };
    // Past the deadline, no heartbeat extends the lease. The worker gets the old expiry, which is
    // over. So a silent worker does not become a slow one by waking up late.
    if facts.now >= lease.deadline {
        let lease_state = Answer::LeaseState(lease_state_of(job, lease.expires_at));
        return Ok(Decided { effect: Effect::Nothing, answer: lease_state });
    }
    let expires_at = lease.extended(facts.now);
    let mut job = job.clone();
    job.state = State::Running(Lease { expires_at, ..lease.clone() });
    job.changed_at = facts.now;
    if let Some(report) = progress {
        job.life.progress = Some(Progress { report: report.clone(), at: facts.now });
        job.version += 1;
    }
    let answer = Answer::LeaseState(lease_state_of(&job, expires_at));
    Ok(Decided { effect: Effect::Change(Box::new(Job::without_transition(job))), answer })
}

fn lease_state_of(job: &Job, expires_at: Timestamp) -> LeaseState {
    if job.life.cancel_requested {
        LeaseState::CancelRequested(expires_at)
    } else {
        LeaseState::Extended(expires_at)
    }
}

fn settle(job: &Job, token: &LeaseToken, ending: &Ending, facts: &Facts<'_>) -> Decision {
    let digest = EndingDigest::of(ending);
    let Some(lease) = current_lease(job, token, facts) else {
        return repeat_answer(token, digest, facts);
    };
    let mut note = settled_note(lease, digest);
    note.message = ending.message.clone();
    // A worker that reports is not lost, whatever it reports.
    let life = Life { losses: 0, message: ending.message.clone(), ..job.life.clone() };
    let now = facts.now;
    Ok(with_status(match &ending.kind {
        // Also when a cancel was requested: the job has finished first.
        EndingKind::Completed { result, result_url } => {
            let (result, result_url) = (result.clone(), result_url.clone());
            let life = Life { last_failure: None, result, result_url, ..life };
            job.transition(State::Completed(ended_at(now)), life, now, note)
        }
        EndingKind::Failed { failure, retry_after } => {
            let delay = facts.policy.delay_after(job.life.attempt, facts.entropy);
            fail_retryable(job, life, failure, retry_after.unwrap_or(delay), now, note)
        }
        EndingKind::FailedPermanently(failure) => {
            fail_with(job, State::Failed(ended_at(now)), life, failure, now, note)
        }
        EndingKind::Poisoned(failure) => {
            fail_with(job, State::Poisoned(ended_at(now)), life, failure, now, note)
        }
        EndingKind::Cancelled => job.transition(State::Cancelled(ended_at(now)), life, now, note),
    }))
}

/// What every retryable failure leads to, whether a worker or the sweeper states it.
fn fail_retryable(
    job: &Job,
    life: Life,
    failure: &Failure,
    delay: Duration,
    now: Timestamp,
    note: HistoryNote,
) -> Change {
    let state = match (life.cancel_requested, job.has_attempts_left()) {
        (true, _) => State::Cancelled(ended_at(now)),
        (false, false) => State::Poisoned(ended_at(now)),
        (false, true) => State::Queued { run_at: now + delay },
    };
    fail_with(job, state, life, failure, now, note)
}

fn fail_with(
    job: &Job,
    state: State,
    life: Life,
    failure: &Failure,
    now: Timestamp,
    note: HistoryNote,
) -> Change {
    let life = Life { last_failure: Some(failure.clone()), ..life };
    let note = HistoryNote { failure: Some(failure.clone()), ..note };
    job.transition(state, life, now, note)
}

fn release(
    job: &Job,
    token: &LeaseToken,
    reason: ReleaseReason,
    delay: Duration,
    facts: &Facts<'_>,
) -> Decision {
    let digest = EndingDigest::released();
    let Some(lease) = current_lease(job, token, facts) else {
        return repeat_answer(token, digest, facts);
    };
    let now = facts.now;
    let note = HistoryNote { message: Some(reason.as_str().into()), ..settled_note(lease, digest) };
    let run_at = match reason {
        ReleaseReason::Undelivered => Some(lease.due_at),
        ReleaseReason::NotStarted => run_at_after_not_started(job, lease, now),
        ReleaseReason::AwaitsChildren if facts.has_live_children => {
            return Ok(with_status(await_children(job, now, note)));
        }
        // No child is left to wait for: an ordinary release, or a worker that asks for the wait
        // again and again would make history without end.
        ReleaseReason::AwaitsChildren => None,
        ReleaseReason::Released | ReleaseReason::Snoozed => None,
    };
    if let Some(run_at) = run_at {
        return Ok(with_status(requeue_unstarted(job, lease, run_at, now, note)));
    }
    let releases = job.life.releases + 1;
    let is_free = releases <= RELEASES_MAX;
    let attempt = job.life.attempt.saturating_sub(u32::from(is_free));
    // A worker that gives a job back is not lost.
    let life = Life { attempt, releases, losses: 0, ..job.life.clone() };
    if life.cancel_requested {
        return Ok(with_status(job.transition(State::Cancelled(ended_at(now)), life, now, note)));
    }
    if !is_free && !job.has_attempts_left() {
        let text = format!("given back more than {RELEASES_MAX} times, and no attempt is left");
        let failure = Failure::ours(failure_codes::RELEASE_LIMIT, text);
        return Ok(with_status(fail_with(
            job,
            State::Poisoned(ended_at(now)),
            life,
            &failure,
            now,
            note,
        )));
    }
    Ok(with_status(job.transition(State::Queued { run_at: now + delay }, life, now, note)))
}

/// The attempt ends without a trace in the counters: the next one is its continuation.
fn await_children(job: &Job, now: Timestamp, note: HistoryNote) -> Change {
    let attempt = job.life.attempt.saturating_sub(1);
    let life = Life { attempt, losses: 0, ..job.life.clone() };
    let state = if life.cancel_requested {
        State::Cancelled(ended_at(now))
    } else {
        State::AwaitingChildren { since: now }
    };
    job.transition(state, life, now, note)
}

/// When another worker may claim a job that was not started. `None` where the release is an
/// ordinary one: the attempt showed that it began, or too many claims of the job were not started.
fn run_at_after_not_started(job: &Job, lease: &Lease, now: Timestamp) -> Option<Timestamp> {
    let first_expiry = (lease.started_at + lease.length).min(lease.deadline);
    let has_begun = job.life.progress.is_some() || lease.expires_at > first_expiry;
    // Claims that used up no attempt and were no release. Those of earlier lives count as well,
    // because they made history rows, too.
    let free_releases = job.life.releases.min(RELEASES_MAX);
    let used_claims = u64::from(job.life.attempt) + u64::from(free_releases);
    let not_started = job.fence.saturating_sub(used_claims);
    if has_begun || not_started >= NOT_STARTED_MAX {
        return None;
    }
    let claims = u32::try_from(not_started + 1).unwrap_or(u32::MAX);
    Some(now + NOT_STARTED_BACKOFF.ceiling(claims))
}

/// No handler saw this claim. It counts as no release, no heartbeat and no start.
fn requeue_unstarted(
    job: &Job,
    lease: &Lease,
    run_at: Timestamp,
    now: Timestamp,
    note: HistoryNote,
) -> Change {
    let first_start = job.life.started_at.filter(|started| *started != lease.started_at);
    let attempt = job.life.attempt.saturating_sub(1);
    let life = Life { attempt, started_at: first_start, ..job.life.clone() };
    let state = if life.cancel_requested {
        State::Cancelled(ended_at(now))
    } else {
        State::Queued { run_at }
    };
    job.transition(state, life, now, note)
}

fn cancel(job: &Job, now: Timestamp) -> Decision {
    match &job.state {
        State::Queued { .. } | State::AwaitingChildren { .. } => {
            let life = Life { cancel_requested: true, ..job.life.clone() };
            let note = HistoryNote::with_message("cancelled");
            Ok(with_job(job.transition(State::Cancelled(ended_at(now)), life, now, note)))
        }
        State::Running(_) if job.life.cancel_requested => Ok(unchanged(job)),
        State::Running(lease) => {
            let life = Life { cancel_requested: true, ..job.life.clone() };
            let worker = Some(lease.worker.clone());
            let note = HistoryNote { worker, ..HistoryNote::with_message("cancel requested") };
            Ok(with_job(job.transition(job.state.clone(), life, now, note)))
        }
        State::Cancelled(_) => Ok(unchanged(job)),
        State::Completed(_) | State::Failed(_) | State::Poisoned(_) => {
            Err(Refusal::AlreadyEnded { status: job.status() })
        }
    }
}

fn expire(job: &Job, now: Timestamp) -> Decision {
    if job.status() != Status::Queued {
        return Err(Refusal::NotQueued { status: job.status() });
    }
    if !has_expired(job, now) {
        return Err(Refusal::NotDue);
    }
    // The new failure overwrites the last error, which is what an operator will look for.
    let last = job.life.last_failure.as_ref();
    let message = last.map(|failure| match &failure.message {
        Some(text) => cut(&format!("last error {}: {text}", failure.code), MESSAGE_BYTES_MAX),
        None => format!("last error {}", failure.code).into(),
    });
    let life = Life { message: message.or(job.life.message.clone()), ..job.life.clone() };
    let failure = Failure::ours(failure_codes::JOB_EXPIRED, "not started before its expiresAt");
    Ok(with_job(fail_with(
        job,
        State::Cancelled(ended_at(now)),
        life,
        &failure,
        now,
        HistoryNote::default(),
    )))
}

fn timeout(job: &Job, facts: &Facts<'_>) -> Decision {
    let lease = running_lease(job)?;
    if !has_timed_out(lease, facts.now) {
        return Err(Refusal::NotDue);
    }
    let failure = Failure::ours(failure_codes::HANDLER_TIMEOUT, "ran longer than its timeout");
    let delay = facts.policy.delay_after(job.life.attempt, facts.entropy);
    let note = HistoryNote { worker: Some(lease.worker.clone()), ..HistoryNote::default() };
    Ok(with_job(fail_retryable(job, job.life.clone(), &failure, delay, facts.now, note)))
}

fn lease_expiry(job: &Job, facts: &Facts<'_>) -> Decision {
    let lease = running_lease(job)?;
    if !has_lapsed(lease, facts.now) {
        return Err(Refusal::NotDue);
    }
    let losses = job.life.losses + 1;
    let life = Life { losses, ..job.life.clone() };
    let note = HistoryNote { worker: Some(lease.worker.clone()), ..HistoryNote::default() };
    let worker = &lease.worker;
    if losses >= facts.policy.lost_workers_max {
        let text = format!("{losses} workers in a row were lost, the last was {worker}");
        let failure = Failure::ours(failure_codes::WORKER_LOST, text);
        let state = if life.cancel_requested { State::Cancelled } else { State::Poisoned };
        let state = state(ended_at(facts.now));
        return Ok(with_job(fail_with(job, state, life, &failure, facts.now, note)));
    }
    let failure =
        Failure::ours(failure_codes::LEASE_EXPIRED, format!("no sign of life from {worker}"));
    let delay = facts.policy.delay_after(job.life.attempt, facts.entropy);
    Ok(with_job(fail_retryable(job, life, &failure, delay, facts.now, note)))
}

/// How the children ended makes no difference: that is for the handler to decide.
fn children_ended(job: &Job, facts: &Facts<'_>) -> Decision {
    match job.state {
        State::AwaitingChildren { .. } if !facts.has_live_children => {}
        State::AwaitingChildren { .. }
        | State::Queued { .. }
        | State::Running(_)
        | State::Completed(_)
        | State::Failed(_)
        | State::Poisoned(_)
        | State::Cancelled(_) => return Err(Refusal::NotDue),
    }
    let now = facts.now;
    let note = HistoryNote::with_message("its children have ended");
    Ok(with_job(job.transition(State::Queued { run_at: now }, job.life.clone(), now, note)))
}

/// A corrected payload changes neither the envelope nor the content of the key: a client that
/// repeats its first submit still finds this job.
fn redrive(
    job: &Job,
    max_attempts: Option<u32>,
    reset_steps: bool,
    now: Timestamp,
) -> Result<Change, Refusal> {
    if !job.status().is_ended() {
        return Err(Refusal::NotEnded { status: job.status() });
    }
    if !job.status().is_dead_end() {
        return Err(Refusal::NotRedrivable { status: job.status() });
    }
    let life = Life::new(job.life.redrive_count + 1, now);
    let mut change = job.transition(
        State::Queued { run_at: now },
        life,
        now,
        HistoryNote::with_message("redriven"),
    );
    change.takes_key = true;
    change.job.expires_at = None;
    change.job.max_attempts = max_attempts.unwrap_or(job.max_attempts);
    if reset_steps {
        change.steps = StepsChange::Cleared;
    }
    Ok(change)
}

fn discard(job: &Job, now: Timestamp) -> Decision {
    match job.state {
        State::Poisoned(Ended { discarded_at: Some(_), .. }) => Ok(unchanged(job)),
        State::Poisoned(Ended { at, discarded_at: None }) => {
            let state = State::Poisoned(Ended { at, discarded_at: Some(now) });
            Ok(with_job(job.transition(
                state,
                job.life.clone(),
                now,
                HistoryNote::with_message("discarded"),
            )))
        }
        State::Queued { .. }
        | State::AwaitingChildren { .. }
        | State::Running(_)
        | State::Completed(_)
        | State::Failed(_)
        | State::Cancelled(_) => Err(Refusal::NotPoisoned { status: job.status() }),
    }
}

fn erase(job: &Job) -> Decision {
    if !job.status().is_ended() {
        return Err(Refusal::NotEnded { status: job.status() });
    }
    Ok(Decided { effect: Effect::Erase, answer: Answer::Erased })
}

fn purge(job: &Job, facts: &Facts<'_>) -> Decision {
    if !may_be_purged(job, facts.policy, facts.now) {
        return Err(Refusal::NotDue);
    }
    Ok(Decided { effect: Effect::Erase, answer: Answer::Erased })
}

/// The lease, if `token` is the newest.
///
/// The token decides, not the clock. A worker that overran its lease, but whose job no other worker
/// has taken, did the work. To refuse it would only make the job run a second time.
pub(crate) fn current_lease<'a>(
    job: &'a Job,
    token: &LeaseToken,
    facts: &Facts<'_>,
) -> Option<&'a Lease> {
    let lease = job.lease()?;
    let valid = lease.token == *token && lease.holds_in(facts.epoch);
    valid.then_some(lease)
}

/// Answers a report under a lease that no longer holds from the record of that attempt.
fn repeat_answer(token: &LeaseToken, digest: EndingDigest, facts: &Facts<'_>) -> Decision {
    let record = facts.record.filter(|record| record.token == *token);
    match record {
        Some(record) if record.ending == digest => {
            let answer = Answer::Settled { status: record.status, parent: None };
            Ok(Decided { effect: Effect::Nothing, answer })
        }
        Some(record) => Err(Refusal::AlreadyEnded { status: record.status }),
        None => Err(Refusal::LeaseLost),
    }
}

fn running_lease(job: &Job) -> Result<&Lease, Refusal> {
    job.lease().ok_or(Refusal::NotDue)
}

fn has_expired(job: &Job, now: Timestamp) -> bool {
    job.expires_at.is_some_and(|expires| expires <= now)
}

/// The worker kept its lease alive up to the deadline, and the work took longer than that.
fn has_timed_out(lease: &Lease, now: Timestamp) -> bool {
    now >= lease.deadline && lease.expires_at >= lease.deadline
}

/// The worker fell silent before the deadline.
fn has_lapsed(lease: &Lease, now: Timestamp) -> bool {
    now >= lease.expires_at && lease.expires_at < lease.deadline
}

/// Retention is over, and the job does not wait for an operator.
fn may_be_purged(job: &Job, policy: &Policy, now: Timestamp) -> bool {
    kept_since(job)
        .is_some_and(|since| since + policy.effective_retention(job.envelope.key.is_some()) <= now)
}

/// When the retention of an ended job begins; `None` for a poisoned job that still waits for an
/// operator. Stores find old jobs by it, and the purge checks it again.
pub fn kept_since(job: &Job) -> Option<Timestamp> {
    match job.state {
        State::Queued { .. } | State::AwaitingChildren { .. } | State::Running(_) => None,
        State::Completed(ended) | State::Failed(ended) | State::Cancelled(ended) => Some(ended.at),
        State::Poisoned(ended) => ended.discarded_at,
    }
}

fn ended_at(at: Timestamp) -> Ended {
    Ended { at, discarded_at: None }
}

fn settled_note(lease: &Lease, digest: EndingDigest) -> HistoryNote {
    HistoryNote {
        worker: Some(lease.worker.clone()),
        settled: Some((lease.token, digest)),
        ..HistoryNote::default()
    }
}

fn with_job(change: Change) -> Decided {
    let answer = Answer::Job(Box::new(change.job.clone()));
    Decided { effect: Effect::Change(Box::new(change)), answer }
}

fn with_status(change: Change) -> Decided {
    let (status, parent) = (change.job.status(), change.job.envelope.parent);
    let answer = Answer::Settled { status, parent };
    Decided { effect: Effect::Change(Box::new(change)), answer }
}

fn unchanged(job: &Job) -> Decided {
    Decided { effect: Effect::Nothing, answer: Answer::Job(Box::new(job.clone())) }
}
