//! Announcements: once, in order, under one id.

use super::house::{House, email, only, token};
use crate::NumberedEvent;
use engine::{Command, Event, EventKind, JobId, Scope};
use pollster::block_on;

fn number(house: &House, limit: usize) -> usize {
    block_on(house.store().number_events(limit)).unwrap()
}

fn events(house: &House, after: u64) -> Vec<NumberedEvent> {
    block_on(house.store().events(after, 100)).unwrap()
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
    assert_eq!(block_on(house.store().events(3, 2)).unwrap(), all[3..5]);
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

fn announced(house: &House, id: JobId, after: u64) -> Vec<Event> {
    block_on(house.store().announced(&Scope::All, id, after)).unwrap()
}

fn seqs(house: &House, id: JobId, after: u64) -> Vec<u64> {
    announced(house, id, after).iter().map(|event| event.job.seq).collect()
}

/// A long life, of which the oldest rows of history no longer lie with the job, beside another job.
pub(crate) fn a_job_s_announcements_are_read_from_a_row_on(house: &House) {
    let id = house.submit(email());
    for _ in 0..engine::RELEASES_MAX {
        let token = token(&house.take());
        house.must(house.submit_as(email(), "birch"), Command::Cancel);
        let (reason, delay) = (engine::ReleaseReason::Snoozed, std::time::Duration::ZERO);
        house.must(id, Command::Release { token, reason, delay });
    }
    let last = house.job(id).seq;
    let all = announced(house, id, 0);
    number(house, 1_000_000);
    let told: Vec<Event> =
        block_on(house.store().events(0, 1_000)).unwrap().into_iter().map(|e| e.event).collect();
    let own: Vec<Event> = told.into_iter().filter(|event| event.job.id() == id).collect();
    assert_eq!(all, own, "in order and as it was then, before there are numbers");
    assert_eq!(announced(house, id, 0), own, "and after");
    for after in [1, 7, 8, 9, last - 1, last, last + 1, u64::MAX] {
        let later = own.iter().filter(|event| event.job.seq > after).cloned();
        assert_eq!(announced(house, id, after), later.collect::<Vec<_>>(), "after {after}");
    }
    let theirs = block_on(house.store().announced(&only("birch"), id, 0)).unwrap();
    assert!(theirs.is_empty(), "nobody hears of another's job");
    assert!(announced(house, JobId::from_bytes([1; 16]), 0).is_empty());
    (house.restart)();
    assert_eq!(announced(house, id, 0), own);
}

pub(crate) fn old_announcements_of_a_job_are_left_out(house: &House) {
    let id = house.submit(email());
    let claimed = house.take();
    number(house, 1);
    house.pass(7 * 86_400);
    house.tidy(100);
    assert_eq!(seqs(house, id, 0), [2], "what has no number is kept");
    number(house, 10);
    house.complete(&claimed).unwrap();
    assert_eq!(seqs(house, id, 0), [2, 3]);
    house.tidy(100);
    assert_eq!(seqs(house, id, 0), [3]);
}

pub(crate) fn an_erased_job_announces_nothing(house: &House) {
    let id = house.submit(email());
    house.must(id, Command::Cancel);
    number(house, 1);
    assert_eq!(seqs(house, id, 0), [1, 2]);
    house.must(id, Command::Erase);
    assert!(announced(house, id, 0).is_empty());
}
