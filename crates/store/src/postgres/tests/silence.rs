//! Time in which nobody could be heard, because the database was away, or all nodes were.

use super::neighbours;
use crate::{
    NodeCard,
    conformance::{house::email, nodes::card},
};
use pollster::block_on;

/// After an outage callers are faster than the first sign of life of any node: what they do must not hide that there
/// was one.
#[test]
fn a_time_in_which_no_node_was_there_costs_no_lease() {
    let near = neighbours();
    let (house, other) = (&near.house, (near.another)());
    let attend = |card: &NodeCard| block_on(house.store().attend(card)).expect("the store works");
    assert!(attend(&card("one")).leads);
    block_on(other.attend(&card("two"))).expect("the store works");
    house.submit(email());
    let held = house.take();
    house.pass(600);
    house.submit(email());
    attend(&card("one"));
    assert!(house.sweep().is_empty(), "its worker could not be heard");
    house.complete(&held).unwrap();
}

/// And a worker that is silent while nodes are there is silent.
#[test]
fn a_silent_worker_among_nodes_loses_its_lease() {
    let near = neighbours();
    let house = &near.house;
    house.submit(email());
    let held = house.take();
    for _ in 0..60 {
        house.pass(1);
        block_on(house.store().attend(&card("one"))).expect("the store works");
    }
    assert_eq!(house.sweep(), [held.job.id()]);
}
