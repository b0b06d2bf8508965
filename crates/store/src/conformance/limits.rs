//! What one tenant may have beside its jobs.

use super::{
    credentials::key,
    house::{House, claiming, job_type, only, wish},
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

fn of_type(house: &House, name: &str, owner: &str) -> NewJob {
    house.new_job(JobDraft { job_type: name.into(), ..JobDraft::default() }, owner)
}

fn submit(house: &House, name: &str, owner: &str) -> Result<Answer, Refusal> {
    house.one(Request::Submit(vec![of_type(house, name, owner)]))
}

/// Jobs of as many types, in lists that are taken whole.
fn open_types(house: &House, count: u64, owner: &str) {
    let jobs = (0..count).map(|number| of_type(house, &format!("type-{number}"), owner)).collect();
    house.one(Request::Submit(jobs)).expect("they are taken");
}

fn queues(house: &House, scope: &Scope) -> usize {
    block_on(house.store().queues(scope)).expect("the store works").len()
}

pub(crate) fn undeclared_types_of_a_tenant_are_bounded(house: &House) {
    let max = limits().job_types_max;
    open_types(house, max, "acme");
    assert_eq!(submit(house, "one-more", "acme"), refused(TenantLimit::JobTypes, max));
    assert_eq!(queues(house, &only("acme")) as u64, max);
    // What is there goes on, and others are not held up by it.
    submit(house, "type-0", "acme").expect("its queue is there");
    submit(house, "one-more", "birch").expect("another tenant has none");
    // In one batch each has a verdict of its own.
    let one = |name| Request::Submit(vec![of_type(house, name, "acme")]);
    let replies = house.run(vec![one("one-more"), one("type-1"), one("two-more")]);
    let taken: Vec<bool> = replies.iter().map(Result::is_ok).collect();
    assert_eq!(taken, [false, true, false]);
}

pub(crate) fn a_list_with_one_type_too_many_opens_none(house: &House) {
    let max = limits().job_types_max;
    let jobs = (0..=max).map(|number| of_type(house, &format!("type-{number}"), "acme")).collect();
    let refusal = house.one(Request::Submit(jobs)).expect_err("one is too many");
    assert_eq!(refusal.code(), "TENANT_LIMIT");
    assert_eq!(queues(house, &only("acme")), 0);
    open_types(house, max, "acme");
}

pub(crate) fn declared_types_do_not_count(house: &House) {
    let max = limits().job_types_max;
    open_types(house, max, "acme");
    for name in ["one-more", "type-0"] {
        let policy = Policy::default();
        house.one(Request::set_policy(&job_type(name), &policy)).expect("it is set");
    }
    submit(house, "one-more", "acme").expect("it is declared");
    submit(house, "two-more", "acme").expect("type-0 no longer counts");
    assert_eq!(submit(house, "three-more", "acme"), refused(TenantLimit::JobTypes, max));
}

pub(crate) fn paused_types_of_a_tenant_are_bounded(house: &House) {
    let max = limits().job_types_max;
    let pause = |name: &str, scope| Request::Pause { scope, job_type: job_type(name) };
    let pauses = (0..max).map(|number| pause(&format!("type-{number}"), only("acme"))).collect();
    assert!(house.run(pauses).iter().all(Result::is_ok));
    assert_eq!(house.one(pause("one-more", only("acme"))), refused(TenantLimit::JobTypes, max));
    assert_eq!(house.one(pause("type-0", only("acme"))), Ok(Answer::Done), "it is paused already");
    assert_eq!(house.one(pause("one-more", only("birch"))), Ok(Answer::Done));
    let resume = Request::Resume { scope: only("acme"), job_type: job_type("type-0") };
    assert_eq!(house.one(resume), Ok(Answer::Done));
    assert_eq!(house.one(pause("one-more", only("acme"))), Ok(Answer::Done));
}

/// Keys that never end by themselves.
fn lasting(number: u64, scope: Scope) -> ApiKey {
    ApiKey { expires_at: None, ..key(number, scope) }
}

fn fill_keys(house: &House) -> u64 {
    let max = limits().api_keys_max;
    let keys = (0..max).map(|number| Request::put_key(&lasting(number, only("acme"))));
    assert!(house.run(keys.collect()).iter().all(Result::is_ok));
    max
}

fn keys(house: &House, scope: &Scope) -> Vec<ApiKey> {
    block_on(house.store().keys(Some(scope))).expect("the store works")
}

pub(crate) fn keys_of_a_tenant_are_bounded(house: &House) {
    let max = fill_keys(house);
    let put = |number, scope| house.one(Request::put_key(&lasting(number, scope)));
    assert_eq!(put(max, only("acme")), refused(TenantLimit::ApiKeys, max));
    assert_eq!(put(7, only("acme")), Ok(Answer::Done), "it is known");
    assert_eq!(put(max, only("birch")), Ok(Answer::Done));
    assert_eq!(put(max + 1, Scope::All), Ok(Answer::Done));
    assert_eq!(keys(house, &only("acme")).len() as u64, max);
}

/// Whoever makes and revokes keys is never locked out, and what is kept does not grow.
pub(crate) fn an_ended_key_makes_room(house: &House) {
    let max = fill_keys(house);
    let ended = |number, seconds| {
        let now = house.clock.read().wall;
        let revoked_at = Some(now + Duration::from_secs(seconds));
        ApiKey { revoked_at, ..lasting(number, only("acme")) }
    };
    for key in [ended(3, 2), ended(4, 1)] {
        house.one(Request::put_key(&key)).expect("they are known");
    }
    house.pass(5);
    let put = |number| house.one(Request::put_key(&lasting(number, only("acme"))));
    assert_eq!(put(max), Ok(Answer::Done));
    let kept: Vec<_> = keys(house, &only("acme")).iter().map(|key| key.id).collect();
    assert_eq!(kept.len() as u64, max);
    assert!(!kept.contains(&lasting(4, only("acme")).id), "what ended first goes first");
    assert!(kept.contains(&lasting(3, only("acme")).id));
    assert_eq!(put(max + 1), Ok(Answer::Done));
    assert_eq!(put(max + 2), refused(TenantLimit::ApiKeys, max), "all that are left are good");
}

/// Otherwise a key that was stolen could be pushed out, and what it made would not be found from
/// it.
pub(crate) fn the_maker_of_a_kept_key_is_kept(house: &House) {
    let max = fill_keys(house);
    let now = house.clock.read().wall;
    let ended = |number, seconds, scope| {
        let revoked_at = Some(now + Duration::from_secs(seconds));
        ApiKey { revoked_at, ..lasting(number, scope) }
    };
    let made_by = |number, maker, scope| {
        let created_by = lasting(maker, only("acme")).id.principal().into();
        ApiKey { created_by, ..lasting(number, scope) }
    };
    let put = |key| house.one(Request::put_key(&key));
    for key in [ended(3, 1, only("acme")), ended(4, 2, only("acme")), made_by(5, 3, only("acme"))] {
        put(key).expect("they are known");
    }
    // One for all tenants, which made a key of another tenant.
    let others = (max..2 * max).map(|number| Request::put_key(&lasting(number, Scope::All)));
    assert!(house.run(others.collect()).iter().all(Result::is_ok));
    put(made_by(2 * max, max, only("birch"))).expect("birch has none");
    put(ended(max, 1, Scope::All)).expect("it is known");
    house.pass(5);
    assert_eq!(put(lasting(2 * max + 1, only("acme"))), Ok(Answer::Done), "4 goes, and not 3");
    let kept: Vec<_> = keys(house, &only("acme")).iter().map(|key| key.id).collect();
    let is_kept = |number| kept.contains(&lasting(number, only("acme")).id);
    assert_eq!([is_kept(3), is_kept(4), is_kept(5)], [true, false, true]);
    let more = |scope| put(lasting(2 * max + 2, scope));
    assert_eq!(more(only("acme")), refused(TenantLimit::ApiKeys, max));
    assert_eq!(more(Scope::All), refused(TenantLimit::ApiKeys, max));
}

fn seen(number: u64, owner: &str) -> Request {
    let worker = WorkerId::parse(&format!("worker-{number}")).expect("lawful");
    Request::Seen { scope: only(owner), worker }
}

fn fill_workers(house: &House) -> u64 {
    let max = limits().workers_max;
    let signs = (0..max).map(|number| seen(number, "acme"));
    assert!(house.run(signs.collect()).iter().all(Result::is_ok));
    max
}

fn names(house: &House, owner: &str) -> Vec<String> {
    let workers = block_on(house.store().workers(&only(owner))).expect("the store works");
    workers.iter().map(|seen| seen.worker.to_string()).collect()
}

/// One too many works like any other, and is not shown: neither claims nor signs of life are
/// refused for it.
pub(crate) fn workers_of_a_tenant_are_bounded(house: &House) {
    let max = fill_workers(house);
    house.submit_as(super::house::email(), "acme");
    assert_eq!(house.one(seen(max, "acme")), Ok(Answer::Done));
    let claim = Request::Claim { scope: only("acme"), wish: wish("another", "c", &["email"], 1) };
    let Ok(Answer::Claimed(jobs)) = house.one(claim) else { panic!("a claim is answered as one") };
    assert_eq!(jobs.len(), 1);
    assert_eq!(names(house, "acme").len() as u64, max);
    house.one(seen(0, "birch")).expect("a sign of life is taken");
    house.one(claiming(wish("of-all", "d", &["email"], 1))).expect("a claim is taken");
    assert_eq!(names(house, "birch"), ["worker-0"]);
}

pub(crate) fn a_lost_worker_makes_room(house: &House) {
    let max = fill_workers(house);
    house.pass(1);
    let signs = (1..max).map(|number| seen(number, "acme")).collect();
    house.run(signs);
    // One of them goes on, so that the silence of the others is their own.
    for _ in 0..WORKER_SILENCE_MAX.as_secs() / 10 {
        house.pass(10);
        house.one(seen(1, "acme")).expect("a sign of life is taken");
    }
    house.one(seen(max, "acme")).expect("a sign of life is taken");
    let kept = names(house, "acme");
    assert_eq!(kept.len() as u64, max);
    assert!(!kept.contains(&"worker-0".to_owned()), "the lost one goes");
    assert!(kept.contains(&format!("worker-{max}")));
}

/// The node that a worker signs off at may never have seen it, and may have no room for another.
pub(crate) fn a_worker_signs_off_where_there_is_no_room(house: &House) {
    let max = fill_workers(house);
    (house.restart)();
    let signs = (1..=max).map(|number| seen(number, "acme")).collect();
    assert!(house.run(signs).iter().all(Result::is_ok));
    let leave = |number: u64| match seen(number, "acme") {
        Request::Seen { scope, worker } => Request::Leave { scope, worker },
        other => other,
    };
    house.run(vec![leave(0), leave(max + 1)]);
    let there = names(house, "acme");
    assert!(!there.contains(&"worker-0".to_owned()), "it signed off");
    assert!(there.contains(&"worker-1".to_owned()), "it goes on");
}
