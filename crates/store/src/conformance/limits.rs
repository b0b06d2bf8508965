//! The limits of one tenant beside its number of jobs.

use super::{
    credentials::key,
    fixture::{Fixture, claim_request, claiming, job_type, only},
};
use crate::{Answer, Clock, Request};
use engine::{
    ApiKey, JobDraft, NewJob, Policy, Refusal, Scope, TenantLimit, TenantLimits,
    WORKER_SILENCE_MAX, WorkerId,
};
use pollster::block_on;
use std::time::Duration;

fn limits() -> TenantLimits {
    TenantLimits::default()
}

fn refused(limit: TenantLimit, max: u64) -> Result<Answer, Refusal> {
    Err(Refusal::TenantLimit { limit, max })
}

fn of_type(fixture: &Fixture, name: &str, owner: &str) -> NewJob {
    fixture.new_job(JobDraft { job_type: name.into(), ..JobDraft::default() }, owner)
}

fn submit(fixture: &Fixture, name: &str, owner: &str) -> Result<Answer, Refusal> {
    fixture.one(Request::Submit(vec![of_type(fixture, name, owner)]))
}

/// Submits jobs of `count` types, in lists that must be accepted whole.
fn open_types(fixture: &Fixture, count: u64, owner: &str) {
    let jobs =
        (0..count).map(|number| of_type(fixture, &format!("type-{number}"), owner)).collect();
    fixture.one(Request::Submit(jobs)).expect("the store accepts them");
}

fn queues(fixture: &Fixture, scope: &Scope) -> usize {
    block_on(fixture.store().queues(scope)).expect("the store works").len()
}

pub(crate) fn undeclared_types_of_a_tenant_are_bounded(fixture: &Fixture) {
    let max = limits().job_types_max;
    open_types(fixture, max, "acme");
    assert_eq!(submit(fixture, "one-more", "acme"), refused(TenantLimit::JobTypes, max));
    assert_eq!(queues(fixture, &only("acme")) as u64, max);
    // Existing queues still accept jobs, and other tenants are not affected.
    submit(fixture, "type-0", "acme").expect("the queue exists");
    submit(fixture, "one-more", "birch").expect("another tenant has none");
    // Each request of a batch is decided on its own.
    let one = |name| Request::Submit(vec![of_type(fixture, name, "acme")]);
    let replies = fixture.run(vec![one("one-more"), one("type-1"), one("two-more")]);
    let accepted: Vec<bool> = replies.iter().map(Result::is_ok).collect();
    assert_eq!(accepted, [false, true, false]);
}

pub(crate) fn a_list_with_one_type_too_many_opens_none(fixture: &Fixture) {
    let max = limits().job_types_max;
    let jobs =
        (0..=max).map(|number| of_type(fixture, &format!("type-{number}"), "acme")).collect();
    let refusal = fixture.one(Request::Submit(jobs)).expect_err("one is too many");
    assert_eq!(refusal.code(), "TENANT_LIMIT");
    assert_eq!(queues(fixture, &only("acme")), 0);
    open_types(fixture, max, "acme");
}

pub(crate) fn declared_types_do_not_count(fixture: &Fixture) {
    let max = limits().job_types_max;
    open_types(fixture, max, "acme");
    for name in ["one-more", "type-0"] {
        let policy = Policy::default();
        fixture.one(Request::set_policy(&job_type(name), &policy)).expect("it is set");
    }
    submit(fixture, "one-more", "acme").expect("it is declared");
    submit(fixture, "two-more", "acme").expect("type-0 no longer counts");
    assert_eq!(submit(fixture, "three-more", "acme"), refused(TenantLimit::JobTypes, max));
}

pub(crate) fn paused_types_of_a_tenant_are_bounded(fixture: &Fixture) {
    let max = limits().job_types_max;
    let pause = |name: &str, scope| Request::Pause {
        scope,
        job_type: job_type(name),
        note: engine::PauseNote::default(),
    };
    let pauses = (0..max).map(|number| pause(&format!("type-{number}"), only("acme"))).collect();
    assert!(fixture.run(pauses).iter().all(Result::is_ok));
    assert_eq!(fixture.one(pause("one-more", only("acme"))), refused(TenantLimit::JobTypes, max));
    assert_eq!(
        fixture.one(pause("type-0", only("acme"))),
        Ok(Answer::Done),
        "it is paused already"
    );
    assert_eq!(fixture.one(pause("one-more", only("birch"))), Ok(Answer::Done));
    let resume = Request::Resume { scope: only("acme"), job_type: job_type("type-0") };
    assert_eq!(fixture.one(resume), Ok(Answer::Done));
    assert_eq!(fixture.one(pause("one-more", only("acme"))), Ok(Answer::Done));
}

/// A key that never expires.
fn lasting(number: u64, scope: Scope) -> ApiKey {
    ApiKey { expires_at: None, ..key(number, scope) }
}

fn fill_keys(fixture: &Fixture) -> u64 {
    let max = limits().api_keys_max;
    let keys = (0..max).map(|number| Request::put_key(&lasting(number, only("acme"))));
    assert!(fixture.run(keys.collect()).iter().all(Result::is_ok));
    max
}

fn keys(fixture: &Fixture, scope: &Scope) -> Vec<ApiKey> {
    block_on(fixture.store().keys(Some(scope))).expect("the store works")
}

pub(crate) fn keys_of_a_tenant_are_bounded(fixture: &Fixture) {
    let max = fill_keys(fixture);
    let put = |number, scope| fixture.one(Request::put_key(&lasting(number, scope)));
    assert_eq!(put(max, only("acme")), refused(TenantLimit::ApiKeys, max));
    assert_eq!(put(7, only("acme")), Ok(Answer::Done), "the key exists already");
    assert_eq!(put(max, only("birch")), Ok(Answer::Done));
    assert_eq!(put(max + 1, Scope::All), Ok(Answer::Done));
    assert_eq!(keys(fixture, &only("acme")).len() as u64, max);
}

/// A tenant that keeps creating and revoking keys is never refused, and the number of stored keys
/// does not grow.
pub(crate) fn an_ended_key_makes_room(fixture: &Fixture) {
    let max = fill_keys(fixture);
    let ended = |number, seconds| {
        let now = fixture.clock.read().wall;
        let revoked_at = Some(now + Duration::from_secs(seconds));
        ApiKey { revoked_at, ..lasting(number, only("acme")) }
    };
    for key in [ended(3, 2), ended(4, 1)] {
        fixture.one(Request::put_key(&key)).expect("the keys exist already");
    }
    fixture.pass(5);
    let put = |number| fixture.one(Request::put_key(&lasting(number, only("acme"))));
    assert_eq!(put(max), Ok(Answer::Done));
    let remaining: Vec<_> = keys(fixture, &only("acme")).iter().map(|key| key.id).collect();
    assert_eq!(remaining.len() as u64, max);
    assert!(!remaining.contains(&lasting(4, only("acme")).id), "what ended first goes first");
    assert!(remaining.contains(&lasting(3, only("acme")).id));
    assert_eq!(put(max + 1), Ok(Answer::Done));
    assert_eq!(put(max + 2), refused(TenantLimit::ApiKeys, max), "all that are left are good");
}

/// Otherwise an attacker could push out a stolen key, and the keys made with it could not be traced
/// to it.
pub(crate) fn the_maker_of_a_kept_key_is_kept(fixture: &Fixture) {
    let max = fill_keys(fixture);
    let now = fixture.clock.read().wall;
    let ended = |number, seconds, scope| {
        let revoked_at = Some(now + Duration::from_secs(seconds));
        ApiKey { revoked_at, ..lasting(number, scope) }
    };
    let made_by = |number, maker, scope| {
        let created_by = lasting(maker, only("acme")).id.principal().into();
        ApiKey { created_by, ..lasting(number, scope) }
    };
    let put = |key| fixture.one(Request::put_key(&key));
    for key in [ended(3, 1, only("acme")), ended(4, 2, only("acme")), made_by(5, 3, only("acme"))] {
        put(key).expect("the keys exist already");
    }
    // A key for all tenants that made a key of another tenant.
    let more_keys = (max..2 * max).map(|number| Request::put_key(&lasting(number, Scope::All)));
    assert!(fixture.run(more_keys.collect()).iter().all(Result::is_ok));
    put(made_by(2 * max, max, only("birch"))).expect("birch has none");
    put(ended(max, 1, Scope::All)).expect("the key exists already");
    fixture.pass(5);
    assert_eq!(put(lasting(2 * max + 1, only("acme"))), Ok(Answer::Done), "4 goes, and not 3");
    let remaining: Vec<_> = keys(fixture, &only("acme")).iter().map(|key| key.id).collect();
    let is_remaining = |number| remaining.contains(&lasting(number, only("acme")).id);
    assert_eq!([is_remaining(3), is_remaining(4), is_remaining(5)], [true, false, true]);
    let more = |scope| put(lasting(2 * max + 2, scope));
    assert_eq!(more(only("acme")), refused(TenantLimit::ApiKeys, max));
    assert_eq!(more(Scope::All), refused(TenantLimit::ApiKeys, max));
}

fn seen(number: u64, owner: &str) -> Request {
    let worker = WorkerId::parse(&format!("worker-{number}")).expect("lawful");
    Request::WorkerAlive { scope: only(owner), worker }
}

fn fill_workers(fixture: &Fixture) -> u64 {
    let max = limits().workers_max;
    let signs = (0..max).map(|number| seen(number, "acme"));
    assert!(fixture.run(signs.collect()).iter().all(Result::is_ok));
    max
}

fn names(fixture: &Fixture, owner: &str) -> Vec<String> {
    let workers = block_on(fixture.store().workers(&only(owner))).expect("the store works");
    workers.iter().map(|seen| seen.worker.to_string()).collect()
}

/// A worker above the limit works like any other and is not listed: neither its claims nor its
/// heartbeats are refused.
pub(crate) fn workers_of_a_tenant_are_bounded(fixture: &Fixture) {
    let max = fill_workers(fixture);
    fixture.submit_as(super::fixture::email(), "acme");
    assert_eq!(fixture.one(seen(max, "acme")), Ok(Answer::Done));
    let claim = Request::Claim {
        scope: only("acme"),
        claim_request: claim_request("another", "c", &["email"], 1),
    };
    let Ok(Answer::Claimed(jobs)) = fixture.one(claim) else {
        panic!("a claim is answered as one")
    };
    assert_eq!(jobs.len(), 1);
    assert_eq!(names(fixture, "acme").len() as u64, max);
    fixture.one(seen(0, "birch")).expect("the store accepts a heartbeat");
    fixture
        .one(claiming(claim_request("of-all", "d", &["email"], 1)))
        .expect("the store accepts a claim");
    assert_eq!(names(fixture, "birch"), ["worker-0"]);
}

pub(crate) fn a_lost_worker_makes_room(fixture: &Fixture) {
    let max = fill_workers(fixture);
    fixture.pass(1);
    let signs = (1..max).map(|number| seen(number, "acme")).collect();
    fixture.run(signs);
    // One worker goes on, so that the store attributes the silence of the others to them and not to
    // an outage.
    for _ in 0..WORKER_SILENCE_MAX.as_secs() / 10 {
        fixture.pass(10);
        fixture.one(seen(1, "acme")).expect("the store accepts a heartbeat");
    }
    fixture.one(seen(max, "acme")).expect("the store accepts a heartbeat");
    let remaining = names(fixture, "acme");
    assert_eq!(remaining.len() as u64, max);
    assert!(!remaining.contains(&"worker-0".to_owned()), "the lost one goes");
    assert!(remaining.contains(&format!("worker-{max}")));
}

/// The node that receives a sign-off may never have seen the worker, and the tenant may be at its
/// limit of workers.
pub(crate) fn a_worker_signs_off_where_there_is_no_room(fixture: &Fixture) {
    let max = fill_workers(fixture);
    (fixture.restart)();
    let signs = (1..=max).map(|number| seen(number, "acme")).collect();
    assert!(fixture.run(signs).iter().all(Result::is_ok));
    let leave = |number: u64| match seen(number, "acme") {
        Request::WorkerAlive { scope, worker } => Request::Leave { scope, worker },
        other => other,
    };
    fixture.run(vec![leave(0), leave(max + 1)]);
    let listed = names(fixture, "acme");
    assert!(!listed.contains(&"worker-0".to_owned()), "it signed off");
    assert!(listed.contains(&"worker-1".to_owned()), "it goes on");
}
