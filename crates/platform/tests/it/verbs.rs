//! The verbs together, from the view of a caller.

use crate::fixture::Fixture;
use engine::{Outcome, Refusal, Scope, Status};
use platform::{Error, RedriveOptions};
use pollster::block_on;
use std::time::Duration;

#[test]
fn a_settle_repeated_after_the_job_went_on_is_answered_as_the_first_time() {
    let fixture = Fixture::new();
    fixture.submit();
    let first = fixture.claim("a").remove(0);
    assert_eq!(fixture.settle(&first, Outcome::Failed), Ok(Status::Queued));
    let second = fixture.claim("b").remove(0);
    assert_eq!(second.job.life.attempt, 2);
    assert_eq!(fixture.settle(&first, Outcome::Failed), Ok(Status::Queued));
    assert_eq!(fixture.settle(&second, Outcome::Completed), Ok(Status::Completed));
    assert_eq!(fixture.settle(&first, Outcome::Failed), Ok(Status::Queued));
    let other = fixture.settle(&first, Outcome::Completed);
    assert_eq!(other, Err(Refusal::AlreadyEnded { status: Status::Queued }));
}

#[test]
fn a_cancelled_job_never_runs_again() {
    let fixture = Fixture::new();
    let id = fixture.submit();
    let claimed = fixture.claim("a").remove(0);
    block_on(fixture.platform.cancel(&Scope::All, id, None)).unwrap();
    assert_eq!(fixture.settle(&claimed, Outcome::Failed), Ok(Status::Cancelled));
    fixture.clock.pass(Duration::from_secs(86_400));
    block_on(fixture.platform.sweep()).unwrap();
    assert!(fixture.claim("b").is_empty());
}

#[test]
fn a_claim_repeated_with_its_id_gets_the_same_leases_and_uses_no_further_attempt() {
    let fixture = Fixture::new();
    fixture.submit();
    let first = fixture.claim("a");
    let again = fixture.claim("a");
    assert_eq!(first, again);
    assert_eq!(again[0].job.life.attempt, 1);
}

#[test]
fn a_heartbeat_without_leases_is_a_sign_of_life() {
    let fixture = Fixture::new();
    let worker = engine::WorkerId::parse("idle").unwrap();
    let lease_states =
        block_on(fixture.platform.heartbeat(&Scope::All, &worker, Vec::new())).unwrap();
    assert!(lease_states.is_empty());
    let seen = block_on(fixture.platform.workers(&Scope::All)).unwrap();
    assert!(seen[0].live && seen[0].worker == worker);
}

#[test]
fn the_sweeper_finds_a_silent_worker_and_is_idle_afterwards() {
    let fixture = Fixture::new();
    let id = fixture.submit();
    fixture.claim("a");
    fixture.clock.pass(Duration::from_secs(30));
    assert_eq!(block_on(fixture.platform.sweep()).unwrap().jobs, [id]);
    let idle = block_on(fixture.platform.sweep()).unwrap();
    assert!(idle.jobs.is_empty() && !idle.more);
}

#[test]
fn outcomes_can_be_read_in_their_order() {
    let fixture = Fixture::new();
    let id = fixture.submit();
    fixture.settle(&fixture.claim("a")[0], Outcome::Completed).unwrap();
    assert!(!block_on(fixture.platform.number_events()).unwrap());
    let events = block_on(fixture.platform.events(0, 10)).unwrap();
    let seen: Vec<_> =
        events.iter().map(|e| (e.number, e.event.kind.as_str(), e.event.id())).collect();
    assert_eq!(seen, [(1, "queued", (id, 1)), (2, "running", (id, 2)), (3, "completed", (id, 3))]);
}

#[test]
fn jobs_of_another_tenant_are_not_found() {
    let fixture = Fixture::new();
    let id = fixture.submit();
    let stranger = Scope::One(engine::Tenant::parse("stranger").unwrap());
    let not_found = |outcome: Result<(), Error>| {
        assert!(matches!(outcome, Err(Error::Refused(Refusal::JobNotFound))), "{outcome:?}");
    };
    not_found(block_on(fixture.platform.job(&stranger, id)).map(drop));
    not_found(block_on(fixture.platform.payload(&stranger, id)).map(drop));
    not_found(block_on(fixture.platform.explain(&stranger, id)).map(drop));
    not_found(block_on(fixture.platform.cancel(&stranger, id, None)).map(drop));
    not_found(
        block_on(fixture.platform.redrive(&stranger, id, RedriveOptions::default(), None))
            .map(drop),
    );
    not_found(block_on(fixture.platform.discard(&stranger, id, None)).map(drop));
    not_found(block_on(fixture.platform.erase(&stranger, id, None)));
    not_found(block_on(fixture.platform.history(&stranger, id, 0)).map(drop));
    let nothing_new = block_on(fixture.platform.history(&Scope::All, id, 1)).unwrap();
    assert!(nothing_new.is_empty());
}
