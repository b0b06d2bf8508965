//! From an application's commit to a job like any other.

use super::{EnqueueFixture, PATIENCE, RUNTIME, connect};
use crate::{
    Request, Store,
    conformance::fixture::{ending, job_type, settling},
};
use engine::{Command, JobId, Outcome, PayloadVersion, Policy, Scope, Status, Timestamp};
use tokio::time::timeout;

#[test]
fn rolled_back_jobs_vanish_and_committed_jobs_run() {
    let fixture = EnqueueFixture::new();
    fixture.sql("create table consign.orders (no integer)");
    fixture.sql("begin; insert into consign.orders values (1)");
    let lost = fixture.must("'email', '{\"to\": 1}', key => 'order-1'");
    fixture.sql("rollback");
    assert_eq!(["orders", "inbox", "key", "submission"].map(|table| fixture.count(table)), [0; 4]);
    assert_eq!(fixture.job(lost), None);

    fixture.sql("begin; insert into consign.orders values (1)");
    let id = fixture.must("'email', '{\"to\": 1.0 ,\"cc\":[]}', key => 'order-1', subject => 'o1'");
    fixture.sql("commit");
    assert_eq!(fixture.job(id).unwrap().status(), Status::Queued);
    let claimed = fixture.claim(&["email"], 5).pop().expect("there is one");
    assert_eq!((claimed.job.id(), claimed.payload.as_str()), (id, "{\"to\": 1.0 ,\"cc\":[]}"));
    let done = settling(&claimed, &ending(Outcome::Completed));
    fixture.one(Request::Command { scope: Scope::All, id, command: done }).unwrap();
    assert_eq!(fixture.job(id).unwrap().status(), Status::Completed);
    let history = RUNTIME.block_on(fixture.store.history(&Scope::All, id, 0)).unwrap();
    let to: Vec<Status> = history.iter().map(|entry| entry.to).collect();
    assert_eq!(to, [Status::Queued, Status::Running, Status::Completed]);
    assert_eq!([fixture.count("orders"), fixture.count("inbox")], [1, 0]);
}

#[test]
fn every_question_is_answered_right_after_the_commit() {
    let ask: [fn(&EnqueueFixture, JobId) -> bool; 6] = [
        |fixture, id| fixture.job(id).is_some(),
        |fixture, id| {
            let payload = fixture.store.payload(&Scope::All, id);
            RUNTIME.block_on(payload).unwrap().is_some_and(|payload| payload.as_str() == "7")
        },
        |fixture, id| {
            RUNTIME.block_on(fixture.store.history(&Scope::All, id, 0)).unwrap().len() == 1
        },
        |fixture, id| {
            RUNTIME.block_on(fixture.store.events_of_job(&Scope::All, id, 0)).unwrap().len() == 1
        },
        |fixture, id| {
            RUNTIME.block_on(fixture.store.explain_facts(&Scope::All, id)).unwrap().is_some()
        },
        |fixture, id| RUNTIME.block_on(fixture.store.versions(&[id])).unwrap().contains_key(&id),
    ];
    let fixture = EnqueueFixture::idle();
    for (number, ask) in ask.iter().enumerate() {
        let id = fixture.must("'email', '7'");
        assert_eq!(fixture.count("inbox"), 1);
        assert!(ask(&fixture, id), "question {number}");
        assert_eq!(fixture.count("inbox"), 0);
    }
}

#[test]
fn a_command_right_after_the_commit_finds_its_job() {
    let fixture = EnqueueFixture::idle();
    let id = fixture.must("'email'");
    fixture.one(Request::Command { scope: Scope::All, id, command: Command::Cancel }).unwrap();
    assert_eq!(fixture.job(id).unwrap().status(), Status::Cancelled);
    let nobody = JobId::from_bytes([7; 16]);
    let none =
        fixture.one(Request::Command { scope: Scope::All, id: nobody, command: Command::Cancel });
    assert_eq!(none, Err(engine::Refusal::JobNotFound));
}

#[test]
fn every_enqueue_argument_reaches_the_job() {
    let fixture = EnqueueFixture::idle();
    let parent = fixture.must("'email'");
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let id = fixture.must(&format!(
        "'email', '{{}}'::jsonb, subject => 's', priority => 9, expires_at => 'tomorrow'::timestamptz + \
         interval '90 years', max_attempts => 7, payload_version => '2', parent => '{parent}', \
         traceparent => '{trace}', tenant => 'acme', delay => '90 seconds'"
    ));
    let job = fixture.job(id).unwrap();
    let envelope = &job.envelope;
    assert_eq!((envelope.tenant.as_str(), envelope.job_type.as_str()), ("acme", "email"));
    assert_eq!(envelope.subject.as_ref().map(engine::SubjectId::as_str), Some("s"));
    assert_eq!(envelope.correlation.as_str(), &trace[3..35]);
    assert_eq!((envelope.priority.number(), job.max_attempts), (9, 7));
    assert_eq!(envelope.payload_version, Some(PayloadVersion::Number(2)));
    assert_eq!((envelope.parent, envelope.created_at.unix_ms()), (Some(parent), 1_800_000_000_000));
    assert_eq!(job.run_at(), Some(Timestamp::from_unix_ms(1_800_000_090_000)));
    assert!(job.expires_at.is_some());
    let at = "run_at => '2027-01-15T08:00:01Z', correlation => 'mine', payload_version => 'v2'";
    let job = fixture.job(fixture.must(&format!("'email', {at}"))).unwrap();
    assert_eq!(job.run_at(), Some(Timestamp::from_unix_ms(1_800_000_001_000)));
    assert_eq!(job.envelope.correlation.as_str(), "mine");
    assert_eq!(job.envelope.payload_version, Some(PayloadVersion::Text("v2".into())));
    assert_eq!(job.max_attempts, Policy::default().max_attempts);
}

#[test]
fn the_policy_of_its_type_is_applied() {
    let fixture = EnqueueFixture::idle();
    fixture.set_policy("email", Policy { max_attempts: 9, ..Policy::default() });
    assert_eq!(fixture.job(fixture.must("'email'")).unwrap().max_attempts, 9);
}

#[test]
fn a_long_transaction_delivers_a_job_that_expired_meanwhile() {
    let fixture = EnqueueFixture::idle();
    fixture.sql("begin");
    let late = "'email', expires_at => '2027-01-15T08:00:10Z', delay => '5 seconds'";
    let id = fixture.must(late);
    fixture.clock.pass(std::time::Duration::from_secs(60));
    fixture.sql("commit");
    let job =
        fixture.job(id).expect("it was acknowledged, so it is there, and expires like any other");
    assert_eq!(job.status(), Status::Queued);
    assert_eq!(job.expires_at, Some(Timestamp::from_unix_ms(1_800_000_010_000)));
}

#[test]
fn an_enqueue_notifies_every_node() {
    let fixture = EnqueueFixture::new();
    let other = fixture.another_node();
    let id = fixture.must("'email', '1'");
    let notified = async |store: &dyn Store| {
        while !store.notification().await.work.contains(&job_type("email")) {}
    };
    let both = async { tokio::join!(notified(&*fixture.store), notified(&*other)) };
    RUNTIME.block_on(async { timeout(PATIENCE, both).await }).expect("both are told");
    assert_eq!(fixture.claim(&["email"], 5).pop().expect("it is there").job.id(), id);
}

#[test]
fn a_node_finds_inbox_rows_without_a_notification() {
    let fixture = EnqueueFixture::new();
    fixture.sql(
        "insert into consign.inbox (id, enqueued_at, run_at, tenant, job_type, payload) \
         values ('01a1e2ea-cee4-7570-9be7-cb63bbf8d2e0', 1, 1, 'default', 'email', '1')",
    );
    let notified = async { while fixture.store.notification().await.work.is_empty() {} };
    RUNTIME.block_on(async { timeout(PATIENCE, notified).await }).expect("a node looks by itself");
    assert_eq!(fixture.claim(&["email"], 5).len(), 1);
}

#[test]
fn inbox_rows_survive_a_node_that_dies_while_promoting() {
    let fixture = EnqueueFixture::idle();
    let id = fixture.must("'email', '1'");
    let dying = connect(&fixture.address);
    let take = fixture.named("begin; delete from consign.inbox");
    RUNTIME.block_on(dying.batch_execute(&take)).unwrap();
    drop(dying);
    assert!(fixture.job(id).is_some(), "it comes back, and the next node takes it in");
    assert_eq!(fixture.count("inbox"), 0);
}
