//! Jobs that wait for their children.

use super::fixture::{Fixture, claim_request, email, only, token};
use crate::Claimed;
use engine::{Command, JobDraft, JobId, Reason, ReleaseReason, Status, explain};
use pollster::block_on;
use std::time::Duration;

fn child_of(parent: JobId) -> JobDraft {
    JobDraft { job_type: "child".into(), parent_id: Some(parent.to_string()), ..email() }
}

fn release_until_children_ended(fixture: &Fixture, claimed: &Claimed) {
    let (reason, delay) = (ReleaseReason::AwaitsChildren, Duration::ZERO);
    let command = Command::Release { token: token(claimed), reason, delay };
    fixture.must(claimed.job.id(), command);
}

/// A parent that waits for so many children.
fn waiting_parent(fixture: &Fixture, children: usize) -> JobId {
    let parent = fixture.submit(email());
    let claimed = fixture.take();
    for _ in 0..children {
        fixture.submit(child_of(parent));
    }
    release_until_children_ended(fixture, &claimed);
    parent
}

fn is_claimable(fixture: &Fixture) -> bool {
    !fixture.claim(claim_request("w", "look", &["email"], 10)).is_empty()
}

pub(crate) fn a_parent_waits_until_its_last_child_has_ended(fixture: &Fixture) {
    let parent = waiting_parent(fixture, 2);
    assert!(fixture.job(parent).awaits_children());
    assert_eq!(fixture.depth("email").due, 0, "it is queued and not due");
    assert_eq!(fixture.depth("email").counts.queued, 1);
    assert!(fixture.command(parent, Command::ChildrenEnded).is_err(), "two are live");
    fixture.complete(&fixture.take_from("child")).unwrap();
    fixture.pass(86_400);
    assert!(!is_claimable(fixture), "one is live");
    assert!(!fixture.sweep().contains(&parent));
    (fixture.restart)();
    assert!(fixture.job(parent).awaits_children(), "a wait survives a restart");
    fixture.poison(&fixture.take_from("child"));
    fixture.must(parent, Command::ChildrenEnded);
    let claimed = fixture.take();
    assert_eq!(
        (claimed.job.id(), claimed.job.life.attempt),
        (parent, 1),
        "still the first attempt"
    );
    assert_eq!(claimed.job.life.releases, 0);
    fixture.complete(&claimed).unwrap();
}

pub(crate) fn a_sweep_finds_a_parent_whose_children_have_ended(fixture: &Fixture) {
    let parent = waiting_parent(fixture, 1);
    assert!(fixture.sweep().is_empty());
    fixture.complete(&fixture.take_from("child")).unwrap();
    (fixture.restart)();
    assert_eq!(fixture.sweep(), [parent], "no node told it so");
    assert!(fixture.sweep().is_empty(), "once");
    assert_eq!(fixture.take().job.id(), parent);
}

pub(crate) fn a_foreign_child_makes_no_parent_wait(fixture: &Fixture) {
    let parent = fixture.submit_as(email(), "acme");
    fixture.submit_as(child_of(parent), "birch");
    let claimed = fixture.take();
    release_until_children_ended(fixture, &claimed);
    assert!(!fixture.job(parent).awaits_children(), "it has no child of its own tenant");
    assert_eq!(fixture.job(parent).life.releases, 1, "so it was an ordinary release");
    fixture.submit_as(child_of(parent), "acme");
    release_until_children_ended(fixture, &fixture.take());
    let facts = block_on(fixture.store().explain_facts(&only("acme"), parent)).unwrap();
    let (job, facts) = facts.expect("the job exists");
    let reasons = explain(&job, &facts);
    assert!(matches!(reasons[..], [Reason::WaitingForChildren { live: 1, .. }]), "{reasons:?}");
}

pub(crate) fn a_waiting_parent_is_cancelled_and_expires_like_a_queued_job(fixture: &Fixture) {
    let parent = waiting_parent(fixture, 1);
    fixture.must(parent, Command::Cancel);
    assert_eq!(fixture.status(parent), Status::Cancelled);
    assert!(fixture.command(parent, Command::ChildrenEnded).is_err());
    let late = fixture.submit(JobDraft { expires_at: Some(1_800_000_500_000), ..email() });
    let claimed = fixture.take();
    fixture.submit(child_of(late));
    release_until_children_ended(fixture, &claimed);
    let upcoming = block_on(fixture.store().next_due(fixture.job(late).changed_at)).unwrap();
    assert_eq!(upcoming.due_at, None, "a parent that waits has no due time");
    fixture.pass(3_600);
    assert_eq!(fixture.sweep(), [late]);
    assert_eq!(fixture.status(late), Status::Cancelled);
}
