//! Announcements: once, in order, under one id.

use super::house::{House, email};
use crate::NumberedEvent;
use engine::{Command, EventKind};
use pollster::block_on;

fn number(house: &House, limit: usize) -> usize {
    block_on(house.store.number_events(limit)).unwrap()
}

fn events(house: &House, after: u64) -> Vec<NumberedEvent> {
    block_on(house.store.events(after, 100)).unwrap()
}

pub(crate) fn every_transition_is_announced_once_in_order(house: &House) {
    let id = house.submit(email());
    house.fail(&house.take()).unwrap();
    let claimed = house.take();
    house.must(id, Command::Cancel);
    house.beat(&claimed);
    house.fail(&claimed).unwrap();
    house.redrive(id);
    assert!(events(house, 0).is_empty(), "what has no number is not read");
    assert_eq!(number(house, 100), 6);
    use EventKind::{Cancelled, Queued, Redriven, Retrying, Running};
    let seen: Vec<_> = events(house, 0).iter().map(|e| (e.event.kind, e.event.id())).collect();
    let expected =
        [(Queued, 1), (Running, 2), (Retrying, 3), (Running, 4), (Cancelled, 6), (Redriven, 7)];
    assert_eq!(seen, expected.map(|(kind, seq)| (kind, (id, seq))));
    assert!(events(house, 0).iter().all(|e| e.event.job.seq == e.event.id().1), "as it was then");
}

pub(crate) fn numbers_have_no_gaps_and_do_not_change(house: &House) {
    house.submit_many(5, "default");
    assert_eq!((number(house, 2), number(house, 2)), (2, 2));
    let first = events(house, 0);
    house.submit_many(5, "default");
    assert_eq!((number(house, 100), number(house, 100)), (6, 0));
    let all = events(house, 0);
    assert!(all.iter().map(|event| event.number).eq(1..=10));
    assert_eq!(all[..4], first);
    assert_eq!(events(house, 7), all[7..]);
    assert_eq!(block_on(house.store.events(3, 2)).unwrap(), all[3..5]);
    (house.restart)();
    assert_eq!(events(house, 0), all);
}

pub(crate) fn old_announcements_go_and_numbers_go_on(house: &House) {
    house.submit(email());
    number(house, 100);
    house.pass(7 * 86_400);
    house.submit(email());
    number(house, 100);
    house.tidy(100);
    let left: Vec<_> = events(house, 0).iter().map(|event| event.number).collect();
    assert_eq!(left, [2]);
    house.submit(email());
    house.pass(30 * 86_400);
    house.tidy(100);
    assert_eq!(number(house, 100), 1, "what nobody could read yet is not dropped");
    assert_eq!(events(house, 0)[0].number, 3);
}
