//! New jobs go in one journey, by what was foreseen, and it is found out where that was wrong.

use super::{
    RUNTIME, fresh_address, neighbours, open_at,
    order::{new_job, told},
};
use crate::{
    HandClock, News, Postgres, PostgresAddress, Request, SeededDice, Store,
    conformance::house::{email, job_type},
    take_the_clock,
};
use engine::{JobId, Policy, Scope, Timestamp};
use pollster::block_on;
use std::sync::Arc;
use test_postgres::{ChaosProxy, Server, When};

/// A store behind a line that breaks, with a clock that stands still.
struct Scene {
    proxy: ChaosProxy,
    dice: Arc<SeededDice>,
    store: Arc<Postgres>,
}

impl Scene {
    fn new() -> Self {
        let clock = Arc::new(HandClock::at(Timestamp::from_unix_ms(1_800_000_000_000)));
        let dice = Arc::new(SeededDice::new(1));
        let direct = fresh_address();
        RUNTIME.block_on(take_the_clock(&direct, &clock)).expect("it can be taken");
        let proxy = ChaosProxy::before(Server::shared());
        let address: PostgresAddress = proxy.address().parse().expect("lawful");
        let address = address.with_schema(direct.schema()).expect("lawful");
        let store = open_at(&address, &clock, &dice);
        Scene { proxy, dice, store }
    }

    fn hand_over(&self) -> JobId {
        let new = new_job(&self.dice);
        let id = new.id;
        let batch = vec![Request::Submit(vec![new])];
        let replies = self.store.execute_here(batch, News::default()).expect("it is carried out");
        assert!(replies[0].is_ok(), "{replies:?}");
        id
    }

    fn has_place(&self) -> bool {
        !self.store.inner.places().kept.is_empty()
    }
}

#[test]
fn what_nobody_answered_for_is_handed_over_once() {
    let scene = Scene::new();
    let lose: [fn(&ChaosProxy, When); 2] = [ChaosProxy::lose_replies, ChaosProxy::lose_commits];
    for lose in lose {
        scene.hand_over();
        assert!(scene.has_place(), "what follows goes in one journey");
        lose(&scene.proxy, When::Next(1));
        let id = scene.hand_over();
        assert_eq!(RUNTIME.block_on(told(&scene.store, id)), [1]);
    }
    let counts = scene.proxy.counts();
    assert_eq!((counts.replies_lost, counts.commits_lost), (1, 1));
    let depths = block_on(scene.store.queues(&Scope::All)).expect("the store works");
    assert_eq!(depths[0].counts.queued, 4, "each of them once");
}

#[test]
fn what_was_set_elsewhere_is_heeded() {
    let near = neighbours();
    let (house, other) = (&near.house, (near.another)());
    house.submit(email());
    let policy = Policy { max_attempts: 9, ..Policy::default() };
    let set = vec![Request::SetPolicy { job_type: job_type("email"), policy }];
    other.execute_here(set, News::default()).expect("the store works");
    assert_eq!(house.job(house.submit(email())).max_attempts, 9);
}

#[test]
fn a_clock_that_was_set_is_followed() {
    let house = neighbours().house;
    let start = house.job(house.submit(email())).envelope.created_at.unix_ms();
    let created_after = |ms: i64| {
        house.clock.set_off(ms);
        house.job(house.submit(email())).envelope.created_at.unix_ms() - start
    };
    assert_eq!([created_after(0), created_after(1_500), created_after(-1_000)], [0, 1_500, 1_500]);
}
