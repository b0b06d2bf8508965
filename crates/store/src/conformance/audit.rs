//! The audit log: every action is recorded in its own transaction, in one hash chain.

use super::fixture::{Fixture, email, job_type, only};
use crate::{Answer, Clock, Notification, PAGE_MAX, Reply, Request};
use engine::{
    AuditEntry, AuditHash, AuditNote, Command, CorrelationId, JobId, Policy, Refusal, Scope, Status,
};
use pollster::block_on;

pub(crate) fn note(scope: Scope, target: &str) -> AuditNote {
    AuditNote {
        who: "key:0000000000000001".into(),
        name: None,
        scope,
        action: "test.act",
        target: target.into(),
        detail: target.len().is_multiple_of(2).then(|| "even".into()),
        correlation: CorrelationId::parse("c-1").expect("lawful"),
    }
}

pub(crate) fn recorded(target: &str, request: Request) -> Request {
    request.audited(note(Scope::All, target))
}

fn only_noted(scope: Scope, target: &str) -> Request {
    Request::Audit(note(scope, target))
}

fn cancel(id: JobId) -> Request {
    Request::Command { scope: Scope::All, id, command: Command::Cancel }
}

fn page(fixture: &Fixture, scope: &Scope, before: Option<u64>, limit: usize) -> Vec<AuditEntry> {
    block_on(fixture.store().audit(scope, before, limit)).expect("the store works")
}

/// The whole log, oldest first, after a check of its chain.
#[track_caller]
fn log(fixture: &Fixture) -> Vec<AuditEntry> {
    let mut entries = page(fixture, &Scope::All, None, PAGE_MAX);
    entries.reverse();
    let mut before = AuditHash::FIRST;
    for (entry, number) in entries.iter().zip(1..) {
        assert!(entry.number == number && entry.follows(before), "{entry:?}");
        before = entry.hash;
    }
    entries
}

fn targets(entries: &[AuditEntry]) -> Vec<&str> {
    entries.iter().map(|entry| &*entry.target).collect()
}

pub(crate) fn audited_commands_are_recorded_in_a_hash_chain(fixture: &Fixture) {
    assert!(log(fixture).is_empty());
    let id = fixture.submit(email());
    let cancelled = fixture.one(recorded("job", cancel(id))).map(Answer::first);
    assert!(matches!(cancelled, Ok(Answer::Job(engine::Answer::Setback(_)))), "{cancelled:?}");
    fixture.pass(60);
    assert_eq!(fixture.one(only_noted(only("acme"), "even")), Ok(Answer::Done));
    let entries = log(fixture);
    assert_eq!(fixture.status(id), Status::Cancelled);
    let [first, second] = &entries[..] else { panic!("{entries:?}") };
    let AuditNote { who, scope, action, target, detail, correlation, .. } =
        note(only("acme"), "even");
    assert_eq!((&second.who, &second.scope, &*second.action), (&who, &scope, action));
    assert_eq!((&second.target, &second.detail), (&target, &detail));
    assert_eq!(second.correlation, correlation);
    assert_eq!((&first.detail, &first.scope), (&None, &Scope::All));
    assert_eq!(second.at, fixture.clock.read().wall, "by the store's clock");
    assert_eq!(second.at.since(first.at).as_secs(), 60);
}

pub(crate) fn refused_commands_leave_no_audit_entry(fixture: &Fixture) {
    let erased = fixture.submit(email());
    fixture.must(erased, Command::Cancel);
    fixture.must(erased, Command::Erase);
    let replies = fixture.run(vec![
        only_noted(Scope::All, "a"),
        recorded("refused", cancel(erased)),
        only_noted(Scope::All, "b"),
    ]);
    assert_eq!(replies, [Ok(Answer::Done), Err(Refusal::JobNotFound), Ok(Answer::Done)]);
    let mut entries = log(fixture);
    entries.sort_by(|a, b| a.target.cmp(&b.target));
    assert_eq!(targets(&entries), ["a", "b"], "and no number is left out");
}

/// Settings run before submits, and those before commands, with or without an audit entry.
pub(crate) fn a_recorded_request_has_its_own_turn_and_reply(fixture: &Fixture) {
    let job = fixture.new_job(email(), "default");
    let policy = Policy { max_attempts: 7, ..Policy::default() };
    let batch = vec![
        recorded("cancel", cancel(job.id)),
        recorded("submit", Request::Submit(vec![job.clone()])),
        recorded("policy", Request::set_policy(&job_type("email"), &policy)),
    ];
    let replies: Vec<Reply> =
        fixture.run(batch).into_iter().map(|reply| reply.map(Answer::first)).collect();
    assert!(matches!(&replies[0], Ok(Answer::Job(engine::Answer::Setback(_)))), "{replies:?}");
    assert!(matches!(&replies[1], Ok(Answer::Submitted(all)) if all[0].job_id == job.id));
    assert_eq!(replies[2], Ok(Answer::Done));
    assert_eq!(fixture.job(job.id).max_attempts, 7, "its policy was there before it");
    assert_eq!(fixture.status(job.id), Status::Cancelled);
    assert_eq!(targets(&log(fixture)), ["policy", "submit", "cancel"]);
}

pub(crate) fn a_record_of_a_record_is_two_entries(fixture: &Fixture) {
    let id = fixture.submit(email());
    fixture.one(recorded("outer", recorded("inner", cancel(id)))).unwrap();
    assert_eq!(targets(&log(fixture)), ["inner", "outer"]);
    let refused =
        fixture.one(recorded("outer", recorded("inner", cancel(JobId::from_bytes([1; 16])))));
    assert_eq!(refused, Err(Refusal::JobNotFound));
    assert_eq!(log(fixture).len(), 2);
}

pub(crate) fn a_tenant_reads_only_its_own_audit_entries(fixture: &Fixture) {
    for (scope, target) in
        [(only("acme"), "1"), (Scope::All, "2"), (only("birch"), "3"), (only("acme"), "4")]
    {
        fixture.one(only_noted(scope, target)).unwrap();
    }
    let seen = |scope: &Scope| {
        let entries = page(fixture, scope, None, 10);
        entries.iter().map(|entry| entry.number).collect::<Vec<_>>()
    };
    assert_eq!(seen(&Scope::All), [4, 3, 2, 1]);
    assert_eq!(seen(&only("acme")), [4, 1]);
    assert_eq!(seen(&only("birch")), [3]);
    assert!(seen(&only("cedar")).is_empty());
}

pub(crate) fn the_audit_log_is_read_in_pages(fixture: &Fixture) {
    for number in 0..7 {
        let scope = if number % 2 == 0 { only("acme") } else { Scope::All };
        fixture.one(only_noted(scope, "x")).unwrap();
    }
    let numbers = |scope: &Scope, before, limit| {
        let entries = page(fixture, scope, before, limit);
        entries.iter().map(|entry| entry.number).collect::<Vec<_>>()
    };
    assert_eq!(numbers(&Scope::All, None, 3), [7, 6, 5]);
    assert_eq!(numbers(&Scope::All, Some(5), 3), [4, 3, 2]);
    assert_eq!(numbers(&only("acme"), Some(5), 3), [3, 1]);
    assert!(numbers(&Scope::All, Some(1), 3).is_empty());
    assert!(numbers(&Scope::All, None, 0).is_empty());
    assert_eq!(numbers(&Scope::All, Some(u64::MAX), usize::MAX).len(), 7);
}

pub(crate) fn the_chain_goes_on_after_a_restart_and_a_restore(fixture: &Fixture) {
    fixture.one(only_noted(Scope::All, "a")).unwrap();
    (fixture.restart)();
    fixture.one(only_noted(Scope::All, "b")).unwrap();
    let entries = log(fixture);
    assert_eq!(targets(&entries), ["a", "b"]);
    let restored = (fixture.restored)();
    restored.execute(vec![only_noted(Scope::All, "c")], Notification::default()).unwrap();
    let mut after = block_on(restored.audit(&Scope::All, None, 10)).unwrap();
    after.reverse();
    assert_eq!(after[..2], entries);
    assert!(after[2].number == 3 && after[2].follows(entries[1].hash));
}
