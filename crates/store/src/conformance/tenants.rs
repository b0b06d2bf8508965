//! Tenants are isolated from each other.

use super::fixture::{Fixture, claim_request, email, ending, only, settling};
use crate::{Query, Request};
use engine::{Command, Filter, Outcome, Refusal, Scope, Status};
use pollster::block_on;

pub(crate) fn a_tenant_cannot_see_jobs_of_another(fixture: &Fixture) {
    let id = fixture.submit_as(email(), "acme");
    fixture.take();
    for scope in [only("acme"), Scope::All, only("birch")] {
        let is_visible = scope != only("birch");
        let store = &fixture.store();
        assert_eq!(block_on(store.job(&scope, id)).unwrap().is_some(), is_visible);
        assert_eq!(block_on(store.payload(&scope, id)).unwrap().is_some(), is_visible);
        assert_eq!(block_on(store.history(&scope, id, 0)).unwrap().is_empty(), !is_visible);
        assert_eq!(block_on(store.explain_facts(&scope, id)).unwrap().is_some(), is_visible);
        assert_eq!(block_on(store.queues(&scope)).unwrap().is_empty(), !is_visible);
        let query = Query { scope, filter: Filter::Everything, before: None, limit: 10 };
        assert_eq!(block_on(store.list(&query)).unwrap().jobs.is_empty(), !is_visible);
    }
    let workers = block_on(fixture.store().workers(&only("birch"))).unwrap();
    assert!(workers.is_empty(), "nor the workers of all tenants");
}

pub(crate) fn a_tenant_cannot_change_jobs_of_another(fixture: &Fixture) {
    let id = fixture.submit_as(email(), "acme");
    let claimed = fixture.take();
    let before = fixture.job(id);
    let commands = [
        Command::Cancel,
        Command::Discard,
        Command::Erase,
        Command::Redrive { max_attempts: None, reset_steps: true, payload: None },
        settling(&claimed, &ending(Outcome::Completed)),
    ];
    for command in commands {
        let reply = fixture.one(Request::Command { scope: only("birch"), id, command });
        assert_eq!(reply, Err(Refusal::JobNotFound), "as if it were not there");
    }
    assert_eq!(fixture.job(id), before);
}

pub(crate) fn workers_take_only_what_is_theirs(fixture: &Fixture) {
    fixture.submit_as(email(), "acme");
    let of_birch = fixture.submit_as(email(), "birch");
    let claimed = fixture.claim_as(only("birch"), claim_request("w", "c", &["email"], 10));
    assert_eq!(claimed.iter().map(|c| c.job.id()).collect::<Vec<_>>(), [of_birch]);
    assert_eq!(fixture.status(of_birch), Status::Running);
}

pub(crate) fn workers_of_one_name_are_not_mixed_up(fixture: &Fixture) {
    for owner in ["acme", "birch"] {
        fixture.submit_many(2, owner);
    }
    let acme =
        fixture.claim_as(only("acme"), claim_request("worker-1", "c", &["email"], 1)).remove(0);
    let birch =
        fixture.claim_as(only("birch"), claim_request("worker-1", "c", &["email"], 1)).remove(0);
    assert_ne!(acme.job.id(), birch.job.id(), "one name for a claim, but two claims");
    let seen = |owner| block_on(fixture.store().workers(&only(owner))).unwrap().remove(0);
    assert_eq!((seen("acme").running, seen("birch").running), (1, 1));
    fixture.complete(&acme).unwrap();
    fixture.pass(29);
    fixture.beat(&birch);
    fixture.pass(1);
    assert!(!seen("acme").live && seen("birch").live, "another's lease is no sign of life");
}
