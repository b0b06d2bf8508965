//! Submitting jobs.

use super::fixture::{Fixture, email, submitted};
use crate::Request;
use engine::{Entropy, JobDraft, JobId, PayloadVersion, Priority, Scope, Status, Timestamp};
use pollster::block_on;

pub(crate) fn a_job_is_there_when_it_was_answered(fixture: &Fixture) {
    let answer = fixture.try_submit(email()).unwrap();
    assert_eq!((answer.status, answer.duplicate), (Status::Queued, false));
    let job = fixture.job(answer.job_id);
    assert_eq!((job.status(), job.seq, job.version), (Status::Queued, 1, 1));
    assert_eq!(fixture.history(answer.job_id).len(), 1);
}

pub(crate) fn a_submitted_job_keeps_every_field(fixture: &Fixture) {
    let parent = fixture.submit(email());
    let draft = JobDraft {
        subject_id: Some("order/7 ä".into()),
        correlation_id: Some("corr".into()),
        idempotency_key: Some("key".into()),
        payload: Some("{\"b\": 1, \"a\": [1.0, null]}".into()),
        payload_version: Some(PayloadVersion::Number(3)),
        priority: Some(9),
        delay_seconds: Some(60),
        expires_at: Some(1_900_000_000_000),
        max_attempts: Some(7),
        parent_id: Some(parent.to_string()),
        traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into()),
        ..email()
    };
    let id = fixture.submit(draft);
    let job = fixture.job(id);
    let envelope = &job.envelope;
    assert_eq!(envelope.subject.as_ref().unwrap().as_str(), "order/7 ä");
    assert_eq!(envelope.correlation.as_str(), "corr");
    assert_eq!(envelope.key.as_ref().unwrap().name.as_str(), "key");
    assert_eq!(envelope.payload_version, Some(PayloadVersion::Number(3)));
    assert_eq!((envelope.priority, envelope.parent), (Priority::HIGHEST, Some(parent)));
    assert!(envelope.traceparent.is_some());
    assert_eq!(job.run_at().unwrap().since(envelope.created_at).as_secs(), 60);
    assert_eq!(job.expires_at, Some(Timestamp::from_unix_ms(1_900_000_000_000)));
    assert_eq!(job.max_attempts, 7);
    let payload = block_on(fixture.store().payload(&Scope::All, id)).unwrap().unwrap();
    assert_eq!(payload.as_str(), "{\"b\": 1, \"a\": [1.0, null]}", "kept as it came");
}

pub(crate) fn the_same_hand_over_again_is_the_same_job(fixture: &Fixture) {
    let new = fixture.new_job(email(), "acme");
    let submit = || submitted(fixture.one(Request::Submit(vec![new.clone()])).unwrap()).remove(0);
    let first = submit();
    fixture.complete(&fixture.take()).unwrap();
    let again = submit();
    assert_eq!(
        (again.job_id, again.duplicate),
        (first.job_id, false),
        "not a second job, nor a repeat"
    );
    assert_eq!(again.status, Status::Completed, "and not the first one anew");
    assert_eq!(fixture.history(new.id).len(), 3);
}

pub(crate) fn a_job_never_submitted_is_not_found(fixture: &Fixture) {
    let nobody = JobId::new(Timestamp::default(), Entropy(5));
    assert!(fixture.find(nobody).is_none());
    assert!(fixture.history(nobody).is_empty());
    assert_eq!(block_on(fixture.store().payload(&Scope::All, nobody)).unwrap(), None);
    assert!(block_on(fixture.store().explain_facts(&Scope::All, nobody)).unwrap().is_none());
}
