//! The verbs together: what the issue of this crate promises, seen from where callers stand.

use crate::house::House;
use engine::{OutcomeWord, Refusal, Scope, Status};
use platform::Error;
use pollster::block_on;
use std::time::Duration;

#[test]
fn a_settle_repeated_after_the_job_went_on_is_answered_as_the_first_time() {
    let house = House::new();
    house.submit();
    let first = house.claim("a").remove(0);
    assert_eq!(house.settle(&first, OutcomeWord::Failed), Ok(Status::Queued));
    let second = house.claim("b").remove(0);
    assert_eq!(second.job.life.attempt, 2);
    assert_eq!(house.settle(&first, OutcomeWord::Failed), Ok(Status::Queued));
    assert_eq!(house.settle(&second, OutcomeWord::Completed), Ok(Status::Completed));
    assert_eq!(house.settle(&first, OutcomeWord::Failed), Ok(Status::Queued));
    let other = house.settle(&first, OutcomeWord::Completed);
    assert_eq!(other, Err(Refusal::AlreadyEnded { status: Status::Queued }));
}

#[test]
fn a_cancelled_job_never_runs_again() {
    let house = House::new();
    let id = house.submit();
    let claimed = house.claim("a").remove(0);
    block_on(house.platform.cancel(&Scope::All, id, None)).unwrap();
    assert_eq!(house.settle(&claimed, OutcomeWord::Failed), Ok(Status::Cancelled));
    house.clock.pass(Duration::from_secs(86_400));
    block_on(house.platform.sweep()).unwrap();
    assert!(house.claim("b").is_empty());
}

#[test]
fn a_claim_repeated_with_its_id_gets_the_same_leases_and_uses_no_further_attempt() {
    let house = House::new();
    house.submit();
    let first = house.claim("a");
    let again = house.claim("a");
    assert_eq!(first, again);
    assert_eq!(again[0].job.life.attempt, 1);
}

#[test]
fn a_heartbeat_without_leases_is_a_sign_of_life() {
    let house = House::new();
    let worker = engine::WorkerId::parse("idle").unwrap();
    let lease_states =
        block_on(house.platform.heartbeat(&Scope::All, &worker, Vec::new())).unwrap();
    assert!(lease_states.is_empty());
    let seen = block_on(house.platform.workers(&Scope::All)).unwrap();
    assert!(seen[0].live && seen[0].worker == worker);
}

#[test]
fn the_sweeper_finds_a_silent_worker_and_is_idle_afterwards() {
    let house = House::new();
    let id = house.submit();
    house.claim("a");
    house.clock.pass(Duration::from_secs(30));
    assert_eq!(block_on(house.platform.sweep()).unwrap().jobs, [id]);
    let idle = block_on(house.platform.sweep()).unwrap();
    assert!(idle.jobs.is_empty() && !idle.more);
}

#[test]
fn outcomes_can_be_read_in_their_order() {
    let house = House::new();
    let id = house.submit();
    house.settle(&house.claim("a")[0], OutcomeWord::Completed).unwrap();
    assert!(!block_on(house.platform.number_events()).unwrap());
    let events = block_on(house.platform.events(0, 10)).unwrap();
    let seen: Vec<_> =
        events.iter().map(|e| (e.number, e.event.kind.as_str(), e.event.id())).collect();
    assert_eq!(seen, [(1, "queued", (id, 1)), (2, "running", (id, 2)), (3, "completed", (id, 3))]);
}

#[test]
fn what_is_not_there_is_refused_as_not_found() {
    let house = House::new();
    let id = house.submit();
    let stranger = Scope::One(engine::Tenant::parse("stranger").unwrap());
    let not_found = |outcome: Result<(), Error>| {
        assert!(matches!(outcome, Err(Error::Refused(Refusal::JobNotFound))), "{outcome:?}");
    };
    not_found(block_on(house.platform.job(&stranger, id)).map(drop));
    not_found(block_on(house.platform.payload(&stranger, id)).map(drop));
    not_found(block_on(house.platform.explain(&stranger, id)).map(drop));
    not_found(block_on(house.platform.cancel(&stranger, id, None)).map(drop));
    not_found(block_on(house.platform.redrive(&stranger, id, None, false, None)).map(drop));
    not_found(block_on(house.platform.discard(&stranger, id, None)).map(drop));
    not_found(block_on(house.platform.erase(&stranger, id, None)));
    not_found(block_on(house.platform.history(&stranger, id, 0)).map(drop));
    let nothing_new = block_on(house.platform.history(&Scope::All, id, 1)).unwrap();
    assert!(nothing_new.is_empty());
}
