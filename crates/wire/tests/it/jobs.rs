//! Jobs in every state, each made by the engine itself.

use engine::{
    Claim, ClaimId, Command, CorrelationId, Effect, EndingDraft, Entropy, Event, Facts, Job,
    JobDraft, JobId, JsonText, LeaseToken, NewJob, Outcome, PAYLOAD_BYTES_MAX, PayloadVersion,
    Policy, ProgressReport, Scope, SubmitContext, Tenant, Timestamp, WorkerId, decide, submit,
};
use std::time::Duration;

pub(crate) const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// So many seconds after 2026-11-15T08:00:00.123Z, when the tests submit every job.
pub(crate) fn at(seconds: u64) -> Timestamp {
    Timestamp::from_unix_ms(1_794_729_600_123) + Duration::from_secs(seconds)
}

pub(crate) fn id() -> JobId {
    JobId::new(at(0), Entropy(0xabc << 100))
}

pub(crate) fn correlation() -> CorrelationId {
    CorrelationId::parse("order-4711").unwrap()
}

pub(crate) fn context() -> SubmitContext {
    let tenant = Tenant::parse("acme").unwrap();
    SubmitContext { id: id(), tenant, entropy: Entropy(7), payload_bytes_max: PAYLOAD_BYTES_MAX }
}

pub(crate) fn payload() -> JsonText {
    JsonText::parse("payload", r#"{"to":"a@example.org","copies":1.0}"#, 100).unwrap()
}

/// A job with only a type and a correlation.
pub(crate) fn plain() -> Job {
    begun(JobDraft {
        job_type: "email".into(),
        correlation_id: Some("order-4711".into()),
        ..JobDraft::default()
    })
}

/// A job with every field that a client can set.
pub(crate) fn full() -> Job {
    begun(JobDraft {
        job_type: "email".into(),
        subject_id: Some("order:4711".into()),
        correlation_id: Some("order-4711".into()),
        idempotency_key: Some("order-4711-mail".into()),
        payload: Some(payload().as_str().into()),
        payload_version: Some(PayloadVersion::Number(2)),
        priority: Some(9),
        run_at: None,
        delay_seconds: Some(60),
        expires_at: Some(at(3_600).unix_ms()),
        max_attempts: Some(5),
        parent_id: Some("0190163d-8694-739b-aea5-966c26f8ad91".into()),
        traceparent: Some(TRACE.into()),
        on_ended: None,
    })
}

fn begun(draft: JobDraft) -> Job {
    let new: NewJob = draft.check(context()).unwrap();
    submit(&new, &Policy::default(), 0, at(0)).unwrap().job
}

/// The job after `command`, `seconds` after its submit.
#[track_caller]
pub(crate) fn after(job: &Job, command: &Command, seconds: u64) -> Job {
    match decide(job, command, &facts(&Policy::default(), seconds)).unwrap().effect {
        Effect::Change(change) => change.job,
        Effect::Nothing | Effect::Erase => panic!("{command:?} changes nothing"),
    }
}

pub(crate) fn facts(policy: &Policy, seconds: u64) -> Facts<'_> {
    let entropy = Entropy(0xfeed);
    let (record, step, has_live_children) = (None, None, false);
    let now = at(seconds);
    Facts { now, epoch: 1, policy, entropy, record, step, steps: 0, has_live_children }
}

/// A job whose first attempt began after 100 seconds.
pub(crate) fn running(job: &Job) -> Job {
    claimed(job, 100)
}

pub(crate) fn by_worker_1() -> Claim {
    Claim {
        scope: Scope::All,
        worker: WorkerId::parse("worker-1").unwrap(),
        id: ClaimId::parse("claim-1").unwrap(),
        lease: None,
    }
}

/// The job after a claim, `seconds` after its submit.
pub(crate) fn claimed(job: &Job, seconds: u64) -> Job {
    match engine::claim(job, &by_worker_1(), &facts(&Policy::default(), seconds)).unwrap().effect {
        Effect::Change(change) => change.job,
        Effect::Nothing | Effect::Erase => panic!("a claim changes the job"),
    }
}

pub(crate) fn token(job: &Job) -> LeaseToken {
    job.lease().unwrap().token
}

/// A job whose attempt ended after 130 seconds, as `draft` says.
pub(crate) fn settled(job: &Job, draft: &EndingDraft) -> Job {
    let ending = draft.check().unwrap();
    after(job, &Command::Settle { token: token(job), ending }, 130)
}

pub(crate) fn completed() -> Job {
    let draft = EndingDraft {
        message: Some("sent".into()),
        result: Some(r#"{"sent":1,"id":9007199254740993}"#.into()),
        result_url: Some("https://example.org/mails/1".into()),
        ..EndingDraft::new(Outcome::Completed)
    };
    settled(&running(&full()), &draft)
}

pub(crate) fn retrying() -> Job {
    let draft = EndingDraft {
        error_code: Some("SMTP_BUSY".into()),
        error_message: Some("the server said 421".into()),
        retry_after_seconds: Some(30),
        ..EndingDraft::new(Outcome::Failed)
    };
    settled(&running(&full()), &draft)
}

pub(crate) fn poisoned() -> Job {
    settled(&running(&plain()), &EndingDraft::new(Outcome::Poisoned))
}

/// A running job with progress and a cancel request.
pub(crate) fn stopping() -> Job {
    let job = running(&full());
    let progress = ProgressReport::check(40, Some("2 of 5 mails")).unwrap();
    let beat = Command::Heartbeat { token: token(&job), progress: Some(progress) };
    after(&after(&job, &beat, 110), &Command::Cancel, 111)
}

pub(crate) fn event(kind: engine::EventKind, job: Job, seconds: u64) -> Event {
    Event { kind, at: at(seconds), job }
}
