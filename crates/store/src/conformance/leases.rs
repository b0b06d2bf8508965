//! Leases: who may report, and until when.

use super::house::{House, claiming, email, ending, settling, token, wish};
use crate::{Answer, News, Request};
use engine::{Command, OutcomeWord, Pulse, Refusal, ReleaseReason, Scope, Status, WorkerId};
use pollster::block_on;
use std::time::Duration;

pub(crate) fn a_heartbeat_extends(house: &House) {
    house.submit(email());
    let claimed = house.take();
    let first = claimed.job.lease().unwrap().expires_at;
    house.pass(20);
    assert_eq!(house.beat(&claimed), Pulse::Extended(first + Duration::from_secs(20)));
    house.pass(20);
    assert!(house.sweep().is_empty(), "it was alive");
}

pub(crate) fn a_stale_token_changes_nothing(house: &House) {
    let id = house.submit(email());
    let lost = house.take();
    house.pass(30);
    assert_eq!(house.sweep(), [id]);
    house.pass(2);
    let held = house.take();
    let before = house.job(id);
    assert_eq!(house.complete(&lost), Err(Refusal::LeaseLost));
    assert_eq!(house.beat(&lost), Pulse::Lost);
    assert_eq!(house.job(id), before);
    assert_eq!(house.complete(&held), Ok(Status::Completed));
    assert_eq!(house.complete(&lost), Err(Refusal::LeaseLost));
    assert_eq!(house.beat(&lost), Pulse::Ended);
}

pub(crate) fn the_fence_only_grows(house: &House) {
    let id = house.submit(email());
    let mut last = None;
    for _ in 0..3 {
        let claimed = house.take();
        assert!(last < Some(token(&claimed)));
        last = Some(token(&claimed));
        house.fail(&claimed).unwrap();
    }
    house.redrive(id);
    assert!(last < Some(token(&house.take())), "in another life, too");
}

pub(crate) fn a_jump_of_the_clock_costs_no_lease(house: &House) {
    house.submit(email());
    let claimed = house.take();
    house.clock.set_off(3_600_000);
    assert!(house.sweep().is_empty(), "the clock was wrong, the worker was not silent");
    house.pass(29);
    assert!(house.sweep().is_empty());
    house.pass(2);
    assert_eq!(house.sweep(), [claimed.job.id()], "but silence still ends it");
}

pub(crate) fn the_clock_never_goes_back(house: &House) {
    let id = house.submit(email());
    let claimed = house.take();
    house.clock.set_off(-3_600_000);
    house.pass(1);
    house.complete(&claimed).unwrap();
    let rows = house.history(id);
    assert!(rows.is_sorted_by_key(|row| row.at), "{rows:?}");
    (house.restart)();
    let later = house.submit(email());
    assert!(house.history(later)[0].at >= rows[2].at, "not after a restart, either");
}

pub(crate) fn a_restart_voids_no_lease(house: &House) {
    house.submit(email());
    let claimed = house.take();
    house.pass(3_600);
    (house.restart)();
    assert!(house.sweep().is_empty(), "nobody could hear the worker");
    assert!(matches!(house.beat(&claimed), Pulse::Extended(_)));
    assert_eq!(house.complete(&claimed), Ok(Status::Completed));
}

pub(crate) fn a_restore_voids_every_lease(house: &House) {
    let id = house.submit(email());
    let claimed = house.claim(wish("w", "c", &["email"], 1));
    let store = (house.restored)();
    let settle = settling(&claimed[0], &ending(OutcomeWord::Completed));
    let request = Request::Job { scope: Scope::All, id, command: settle };
    let again = claiming(wish("w", "c", &["email"], 1));
    let replies = store.execute(vec![request, again], News::default()).unwrap();
    assert_eq!(replies[0], Err(Refusal::LeaseLost), "it may have settled in a future that is gone");
    assert_eq!(replies[1], Ok(Answer::Claimed(Vec::new())), "nor is the lease given again");
    let job = block_on(store.job(&Scope::All, id)).unwrap().unwrap();
    assert_eq!(job.status(), Status::Running, "until its time is over");
}

pub(crate) fn an_undelivered_claim_costs_nothing(house: &House) {
    let id = house.submit(email());
    house.pass(5);
    house.submit(email());
    house.pass(5);
    for _ in 0..30 {
        let claimed = house.take();
        assert_eq!(claimed.job.id(), id, "it keeps its place in the line");
        let reason = ReleaseReason::Undelivered;
        house.must(id, Command::Release { token: token(&claimed), reason, delay: Duration::ZERO });
        let life = house.job(id).life;
        assert_eq!((life.attempt, life.releases), (0, 0));
    }
}

pub(crate) fn time_in_which_workers_were_heard_is_no_outage(house: &House) {
    house.submit(email());
    let claimed = house.take();
    house.pass(25);
    house.one(Request::Seen { scope: Scope::All, worker: WorkerId::parse("w1").unwrap() }).unwrap();
    (house.restart)();
    house.pass(5);
    assert_eq!(house.sweep(), [claimed.job.id()], "the lease ended when it was said to end");
}
