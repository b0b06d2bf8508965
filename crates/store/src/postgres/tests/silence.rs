//! Time in which no worker could reach the store, because the database or all nodes were down.

use super::neighbours;
use crate::{
    NodeInfo,
    conformance::{fixture::email, nodes::info},
};
use pollster::block_on;

/// After an outage, a caller's batch may come before the first heartbeat of any node. It must not
/// hide that there was an outage.
#[test]
fn a_time_in_which_no_node_was_there_costs_no_lease() {
    let near = neighbours();
    let (fixture, other) = (&near.fixture, (near.another)());
    let heartbeat_node =
        |info: &NodeInfo| block_on(fixture.store().heartbeat_node(info)).expect("the store works");
    assert!(heartbeat_node(&info("one")).leads);
    block_on(other.heartbeat_node(&info("two"))).expect("the store works");
    fixture.submit(email());
    let leased = fixture.take();
    fixture.pass(600);
    fixture.submit(email());
    heartbeat_node(&info("one"));
    assert!(fixture.sweep().is_empty(), "its worker could not be heard");
    fixture.complete(&leased).unwrap();
}

/// A worker that is silent while nodes run loses its lease.
#[test]
fn a_silent_worker_among_nodes_loses_its_lease() {
    let near = neighbours();
    let fixture = &near.fixture;
    fixture.submit(email());
    let leased = fixture.take();
    for _ in 0..60 {
        fixture.pass(1);
        block_on(fixture.store().heartbeat_node(&info("one"))).expect("the store works");
    }
    assert_eq!(fixture.sweep(), [leased.job.id()]);
}
