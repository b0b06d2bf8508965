//! What operators do is in the audit log with their names; what is refused is not.

use crate::fixture::Fixture;
use engine::{
    AuditHash, CorrelationId, EventKind, JobType, Outcome, PolicyDraft, Refusal, Scope, Status,
    Tenant,
};
use platform::{Actor, Error, RedriveOptions};
use pollster::block_on;

fn actor() -> Actor {
    Actor {
        who: "key:ops".into(),
        name: None,
        scope: Scope::One(Tenant::default_tenant()),
        correlation: CorrelationId::parse("c-7").unwrap(),
    }
}

/// The entries of the audit log, oldest first: action, target and detail in one line.
fn audit_lines(fixture: &Fixture) -> Vec<String> {
    let entries = crate::fixture::audit(&fixture.platform, Scope::All);
    let mut before = AuditHash::FIRST;
    let mut lines = Vec::new();
    for entry in entries.iter().rev() {
        assert!(entry.follows(before), "{entry:?}");
        assert_eq!((&*entry.who, entry.correlation.as_str()), ("key:ops", "c-7"));
        assert_eq!(entry.scope, Scope::One(Tenant::default_tenant()));
        before = entry.hash;
        let detail = entry.detail.as_deref().unwrap_or("-");
        lines.push(format!("{} {} {detail}", entry.action, entry.target));
    }
    lines
}

#[test]
fn every_verb_of_operators_is_done_and_noted() {
    let fixture = Fixture::new();
    let id = fixture.submit();
    let email = || JobType::parse("email").unwrap();
    let one = Scope::One(Tenant::default_tenant());
    let (ops, actor) = (&fixture.platform, actor());
    let by = Some(&actor);
    let three_attempts = || RedriveOptions {
        max_attempts: Some(3),
        reset_steps: true,
        payload: Some("{\"to\": \"a@b\"}".into()),
    };
    block_on(ops.pause(&one, email(), None, by)).unwrap();
    assert!(fixture.claim("a").is_empty());
    block_on(ops.resume(&Scope::All, email(), by)).unwrap();
    fixture.settle(&fixture.claim("b")[0], Outcome::Poisoned).unwrap();
    assert_eq!(
        block_on(ops.redrive(&one, id, three_attempts(), by)).unwrap().status(),
        Status::Queued
    );
    fixture.settle(&fixture.claim("c")[0], Outcome::Poisoned).unwrap();
    block_on(ops.discard(&one, id, by)).unwrap();
    block_on(ops.redrive(&one, id, RedriveOptions::default(), by)).unwrap();
    assert_eq!(block_on(ops.cancel(&one, id, by)).unwrap().status(), Status::Cancelled);
    block_on(ops.erase(&one, id, by)).unwrap();
    let draft = PolicyDraft { max_attempts: Some(9), ..PolicyDraft::default() };
    assert_eq!(block_on(ops.set_policy(email(), &draft, by)).unwrap().max_attempts, 9);
    assert_eq!(block_on(fixture.platform.policies()).unwrap()[&email()].max_attempts, 9);
    block_on(ops.record_action(&actor, "jobs.cancel", "status eq 'Queued'", Some("12 jobs")))
        .unwrap();
    let digest = "sha256:e41acd0e10d0ef4ed0636f4b3461f7fa0b7f9ded2b995a24e00cf4fe95c92662";
    let expected = [
        "queue.pause email tenant default: active → paused".to_owned(),
        "queue.resume email every tenant: paused for tenant default → active".into(),
        format!("job.redrive {id} maxAttempts 3, resetSteps, payload {digest}"),
        format!("job.discard {id} -"),
        format!("job.redrive {id} -"),
        format!("job.cancel {id} -"),
        format!("job.erase {id} -"),
        "type.put email maxAttempts 10 → 9".into(),
        "jobs.cancel status eq 'Queued' 12 jobs".into(),
    ];
    assert_eq!(audit_lines(&fixture), expected);
}

#[test]
fn refused_commands_leave_no_audit_entry() {
    let fixture = Fixture::new();
    let id = fixture.submit();
    let foreign = Scope::One(Tenant::parse("birch").unwrap());
    let (ops, actor) = (&fixture.platform, actor());
    let by = Some(&actor);
    let refused = block_on(ops.cancel(&foreign, id, by));
    assert!(matches!(refused, Err(Error::Refused(Refusal::JobNotFound))), "{refused:?}");
    assert!(block_on(ops.discard(&Scope::All, id, by)).is_err());
    assert!(block_on(ops.erase(&Scope::All, id, by)).is_err());
    let no_attempts = RedriveOptions { max_attempts: Some(0), ..RedriveOptions::default() };
    assert!(block_on(ops.redrive(&Scope::All, id, no_attempts, by)).is_err());
    let draft = PolicyDraft { max_attempts: Some(0), ..PolicyDraft::default() };
    assert!(block_on(ops.set_policy(JobType::parse("email").unwrap(), &draft, by)).is_err());
    assert!(audit_lines(&fixture).is_empty());
    assert_eq!(block_on(fixture.platform.job(&Scope::All, id)).unwrap().status(), Status::Queued);
}

#[test]
fn a_status_stream_resumes_where_it_was() {
    let fixture = Fixture::new();
    let id = fixture.submit();
    fixture.settle(&fixture.claim("a")[0], Outcome::Completed).unwrap();
    let after = |after| {
        let events = block_on(fixture.platform.events_of_job(&Scope::All, id, after)).unwrap();
        events.iter().map(|event| (event.job.seq, event.kind)).collect::<Vec<_>>()
    };
    use EventKind::{Completed, Queued, Running};
    assert_eq!(after(0), [(1, Queued), (2, Running), (3, Completed)]);
    assert_eq!(after(2), [(3, Completed)]);
    assert!(after(3).is_empty());
    let foreign = Scope::One(Tenant::parse("birch").unwrap());
    let refused = block_on(fixture.platform.events_of_job(&foreign, id, 0));
    assert!(matches!(refused, Err(Error::Refused(Refusal::JobNotFound))), "{refused:?}");
}
