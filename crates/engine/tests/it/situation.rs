//! Jobs in every situation, made as in production: through the engine itself.

use engine::*;
use std::time::Duration;

/// The time at which the tests decide.
pub(crate) const NOW: i64 = 1_800_000_000_000;

pub(crate) fn now() -> Timestamp {
    Timestamp::from_unix_ms(NOW)
}

pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_unix_ms(NOW + seconds * 1000)
}

pub(crate) fn facts(policy: &Policy, now: Timestamp) -> Facts<'_> {
    Facts {
        now,
        epoch: 1,
        policy,
        entropy: Entropy(u128::MAX),
        record: None,
        step: None,
        steps: 0,
        has_live_children: false,
    }
}

pub(crate) fn context() -> SubmitContext {
    SubmitContext {
        id: JobId::new(at(-2_000), Entropy(1 << 100)),
        tenant: Tenant::default_tenant(),
        entropy: Entropy(9),
        payload_bytes_max: PAYLOAD_BYTES_MAX,
    }
}

pub(crate) fn draft() -> JobDraft {
    JobDraft {
        job_type: "email".into(),
        idempotency_key: Some("order-7".into()),
        payload: Some("{\"to\":\"a\"}".into()),
        ..JobDraft::default()
    }
}

/// A job submitted 2,000 s ago.
pub(crate) fn queued_from(draft: JobDraft) -> Job {
    let new = draft.check(context()).expect("a good draft");
    submit(&new, &Policy::default(), 0, at(-2_000)).expect("a good job").job
}

pub(crate) fn queued() -> Job {
    queued_from(draft())
}

pub(crate) fn by_w1() -> Claim {
    Claim {
        scope: Scope::All,
        worker: WorkerId::parse("w1").expect("a valid value"),
        id: ClaimId::parse("c1").expect("a valid value"),
        lease: None,
    }
}

/// `job` after it was claimed at `when`.
#[track_caller]
pub(crate) fn claimed(job: &Job, when: Timestamp) -> Job {
    claimed_as(job, &by_w1(), when)
}

#[track_caller]
pub(crate) fn claimed_as(job: &Job, claim: &Claim, when: Timestamp) -> Job {
    let policy = Policy::default();
    changed(engine::claim(job, claim, &facts(&policy, when)))
}

#[track_caller]
fn changed(decision: Decision) -> Job {
    match decision.expect("a valid value").effect {
        Effect::Change(change) => change.job,
        other => panic!("nothing changed: {other:?}"),
    }
}

/// `job` after `command` at `when`; the engine must not refuse the command.
#[track_caller]
pub(crate) fn after(job: &Job, command: &Command, when: Timestamp) -> Job {
    let policy = Policy::default();
    changed(decide(job, command, &facts(&policy, when)))
}

/// Claimed ten seconds ago.
pub(crate) fn running() -> Job {
    claimed(&queued(), at(-10))
}

/// Claimed ten seconds ago, on attempt `attempt` of 3.
pub(crate) fn running_on(attempt: u32) -> Job {
    let mut job = running();
    for _ in 1..attempt {
        let failed = after(&job, &settle(&job, failed()), at(-10));
        let due = failed.run_at().expect("retried");
        job = claimed(&failed, due.max(at(-10)));
    }
    job
}

/// A job that waits for a live child.
pub(crate) fn awaiting_children() -> Job {
    let job = running();
    let policy = Policy::default();
    let facts = Facts { has_live_children: true, ..facts(&policy, at(-9)) };
    let decided = decide(&job, &release(&job, ReleaseReason::AwaitsChildren), &facts).unwrap();
    let Effect::Change(change) = decided.effect else { panic!("a release changes the job") };
    change.job
}

pub(crate) fn token(job: &Job) -> LeaseToken {
    job.lease().map_or(LeaseToken { epoch: 1, fence: job.fence, secret: 7 }, |lease| lease.token)
}

pub(crate) fn settle(job: &Job, ending: EndingDraft) -> Command {
    Command::Settle { token: token(job), ending: ending.check().expect("a good ending") }
}

pub(crate) fn release(job: &Job, reason: ReleaseReason) -> Command {
    Command::Release { token: token(job), reason, delay: Duration::ZERO }
}

pub(crate) fn completed() -> EndingDraft {
    EndingDraft::new(Outcome::Completed)
}

pub(crate) fn failed() -> EndingDraft {
    let error_code = Some("SMTP_DOWN".into());
    EndingDraft { error_code, ..EndingDraft::new(Outcome::Failed) }
}

pub(crate) fn failed_for_good() -> EndingDraft {
    EndingDraft { retryable: Some(false), ..failed() }
}

pub(crate) fn poisoned() -> EndingDraft {
    EndingDraft::new(Outcome::Poisoned)
}

pub(crate) fn cancelled() -> EndingDraft {
    EndingDraft::new(Outcome::Cancelled)
}

/// A job that ended five seconds ago as `ending` says.
pub(crate) fn ended(ending: EndingDraft) -> Job {
    let job = running();
    after(&job, &settle(&job, ending), at(-5))
}

pub(crate) fn status_of(decision: &Decision) -> Option<Status> {
    match &decision.as_ref().ok()?.effect {
        Effect::Change(change) => Some(change.job.status()),
        Effect::Nothing | Effect::Erase => None,
    }
}

pub(crate) fn step(name: &str) -> StepName {
    StepName::parse(name).expect("a valid value")
}

/// The change that `command` makes now.
#[track_caller]
pub(crate) fn change(job: &Job, command: &Command) -> Change {
    let policy = Policy::default();
    match decide(job, command, &facts(&policy, now())).expect("a valid value").effect {
        Effect::Change(change) => *change,
        other => panic!("no change: {other:?}"),
    }
}
