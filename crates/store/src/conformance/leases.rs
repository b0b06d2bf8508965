//! Leases: who may report, and until when.

use super::fixture::{Fixture, claim_request, claiming, email, ending, settling, token};
use crate::{Answer, Notification, Request};
use engine::{
    Command, JobDraft, LeaseState, Outcome, Refusal, ReleaseReason, Scope, Status, WorkerId,
};
use pollster::block_on;
use std::time::Duration;

pub(crate) fn a_heartbeat_extends(fixture: &Fixture) {
    fixture.submit(email());
    let claimed = fixture.take();
    let first = claimed.job.lease().unwrap().expires_at;
    fixture.pass(20);
    assert_eq!(fixture.beat(&claimed), LeaseState::Extended(first + Duration::from_secs(20)));
    fixture.pass(20);
    assert!(fixture.sweep().is_empty(), "it was alive");
}

pub(crate) fn a_stale_token_changes_nothing(fixture: &Fixture) {
    let id = fixture.submit(email());
    let lost = fixture.take();
    fixture.pass(30);
    assert_eq!(fixture.sweep(), [id]);
    fixture.pass(5);
    let claimed = fixture.take();
    let before = fixture.job(id);
    assert_eq!(fixture.complete(&lost), Err(Refusal::LeaseLost));
    assert_eq!(fixture.beat(&lost), LeaseState::Lost);
    assert_eq!(fixture.job(id), before);
    assert_eq!(fixture.complete(&claimed), Ok(Status::Completed));
    assert_eq!(fixture.complete(&lost), Err(Refusal::LeaseLost));
    assert_eq!(fixture.beat(&lost), LeaseState::Ended);
}

pub(crate) fn the_fence_only_grows(fixture: &Fixture) {
    let id = fixture.submit(JobDraft { max_attempts: Some(3), ..email() });
    let mut last = None;
    for _ in 0..3 {
        let claimed = fixture.take();
        assert!(last < Some(token(&claimed)));
        last = Some(token(&claimed));
        fixture.fail(&claimed).unwrap();
    }
    fixture.redrive(id);
    assert!(last < Some(token(&fixture.take())), "in another life, too");
}

pub(crate) fn a_jump_of_the_clock_costs_no_lease(fixture: &Fixture) {
    fixture.submit(email());
    let claimed = fixture.take();
    fixture.clock.set_off(3_600_000);
    assert!(fixture.sweep().is_empty(), "the clock was wrong, the worker was not silent");
    fixture.pass(29);
    assert!(fixture.sweep().is_empty());
    fixture.pass(2);
    assert_eq!(fixture.sweep(), [claimed.job.id()], "but silence still ends it");
}

pub(crate) fn the_clock_never_goes_back(fixture: &Fixture) {
    let id = fixture.submit(email());
    let claimed = fixture.take();
    fixture.clock.set_off(-3_600_000);
    fixture.pass(1);
    fixture.complete(&claimed).unwrap();
    let rows = fixture.history(id);
    assert!(rows.is_sorted_by_key(|row| row.at), "{rows:?}");
    (fixture.restart)();
    let later = fixture.submit(email());
    assert!(fixture.history(later)[0].at >= rows[2].at, "not after a restart, either");
}

pub(crate) fn a_restart_voids_no_lease(fixture: &Fixture) {
    fixture.submit(email());
    let claimed = fixture.take();
    fixture.pass(3_600);
    (fixture.restart)();
    assert!(fixture.sweep().is_empty(), "no node could hear the worker");
    assert!(matches!(fixture.beat(&claimed), LeaseState::Extended(_)));
    assert_eq!(fixture.complete(&claimed), Ok(Status::Completed));
}

pub(crate) fn a_restore_voids_every_lease(fixture: &Fixture) {
    let id = fixture.submit(email());
    let claimed = fixture.claim(claim_request("w", "c", &["email"], 1));
    let store = (fixture.restored)();
    let settle = settling(&claimed[0], &ending(Outcome::Completed));
    let request = Request::Command { scope: Scope::All, id, command: settle };
    let again = claiming(claim_request("w", "c", &["email"], 1));
    let replies = store.execute(vec![request, again], Notification::default()).unwrap();
    assert_eq!(replies[0], Err(Refusal::LeaseLost), "it may have settled in a future that is gone");
    assert_eq!(replies[1], Ok(Answer::Claimed(Vec::new())), "nor is the lease given again");
    let job = block_on(store.job(&Scope::All, id)).unwrap().unwrap();
    assert_eq!(job.status(), Status::Running, "until its time is over");
}

pub(crate) fn an_undelivered_claim_costs_no_attempt(fixture: &Fixture) {
    let id = fixture.submit(email());
    fixture.pass(5);
    fixture.submit(email());
    fixture.pass(5);
    for _ in 0..30 {
        let claimed = fixture.take();
        assert_eq!(claimed.job.id(), id, "it keeps its place in the line");
        let reason = ReleaseReason::Undelivered;
        fixture
            .must(id, Command::Release { token: token(&claimed), reason, delay: Duration::ZERO });
        let life = fixture.job(id).life;
        assert_eq!((life.attempt, life.releases), (0, 0));
    }
}

pub(crate) fn time_with_worker_contact_is_not_an_outage(fixture: &Fixture) {
    fixture.submit(email());
    let claimed = fixture.take();
    fixture.pass(25);
    fixture
        .one(Request::WorkerAlive { scope: Scope::All, worker: WorkerId::parse("w1").unwrap() })
        .unwrap();
    (fixture.restart)();
    fixture.pass(5);
    assert_eq!(fixture.sweep(), [claimed.job.id()], "the lease ended when it was said to end");
}
