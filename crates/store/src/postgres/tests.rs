//! The conformance suite on PostgreSQL, each test in a schema of its own.

mod cleartext;
mod crossed;
mod enqueue;
mod fast_submit;
mod hostile_public;
mod idle_claims;
mod order;
mod outside_locks;
mod silence;
mod unanswered_records;
mod writer_connection;

use super::{Postgres, PostgresAddress, PostgresOptions};
use crate::{
    ManualClock, SeededRandom, Store,
    conformance::{Fixture, OpenStore, conformance, conformance_shared, nodes::ClusterFixture},
    control_clock,
};
use engine::Timestamp;
use std::sync::{Arc, LazyLock};
use test_postgres::Server;
use tokio::runtime::{Builder, Runtime};

/// One runtime for all tests: their connections run on it.
pub(crate) static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("it can be built")
});

pub(crate) fn fresh_address() -> PostgresAddress {
    let server = Server::shared();
    let address: PostgresAddress = server.address().parse().expect("lawful");
    address.with_schema(&server.fresh_schema_name()).expect("lawful")
}

pub(super) fn open_at(
    address: &PostgresAddress,
    clock: &Arc<ManualClock>,
    random: &Arc<SeededRandom>,
) -> Arc<Postgres> {
    let open_node =
        Postgres::open(address, clock.clone(), random.clone(), PostgresOptions::default());
    Arc::new(RUNTIME.block_on(open_node).expect("it can be opened"))
}

/// A manual clock, a seeded random source, and fresh tables whose clock follows the manual one.
fn testing() -> (Arc<ManualClock>, Arc<SeededRandom>, PostgresAddress) {
    let clock = Arc::new(ManualClock::at(Timestamp::from_unix_ms(1_800_000_000_000)));
    let address = fresh_address();
    RUNTIME.block_on(control_clock(&address, &clock)).expect("it can be taken");
    (clock, Arc::new(SeededRandom::new(1)), address)
}

fn open() -> Fixture {
    neighbours().fixture
}

fn neighbours() -> ClusterFixture {
    let (clock, random, address) = testing();
    let open_node = {
        let (address, clock, random) = (address.clone(), clock.clone(), random.clone());
        move || open_at(&address, &clock, &random)
    };
    let open = OpenStore::new(open_node());
    let restart = Box::new({
        let (open, open_node) = (open.clone(), open_node.clone());
        move || open.reopen(|| open_node())
    });
    let another = open_node.clone();
    let restored = Box::new(move || -> Arc<dyn Store> {
        let restored = open_node();
        RUNTIME.block_on(restored.raise_epoch()).expect("it can be raised");
        restored
    });
    let fixture = Fixture { open, clock, random, restart, restored };
    ClusterFixture { fixture, another: Box::new(move || another()) }
}

/// A fixture for tests with one node.
fn fixture_of(
    store: &Arc<Postgres>,
    clock: &Arc<ManualClock>,
    random: &Arc<SeededRandom>,
) -> Fixture {
    let restored = {
        let store = store.clone();
        Box::new(move || -> Arc<dyn Store> { store.clone() })
    };
    let (clock, random) = (clock.clone(), random.clone());
    Fixture {
        open: OpenStore::new(store.clone()),
        clock,
        random,
        restart: Box::new(|| ()),
        restored,
    }
}

conformance!(super::open);
conformance_shared!(super::neighbours);
