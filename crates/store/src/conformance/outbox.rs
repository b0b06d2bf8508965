//! Announcements: once, in order, under one id.

use super::fixture::{Fixture, email, only, token};
use crate::NumberedEvent;
use engine::{Command, Event, EventKind, JobId, Scope};
use pollster::block_on;

fn number(fixture: &Fixture, limit: usize) -> usize {
    block_on(fixture.store().number_events(limit)).unwrap()
}

fn events(fixture: &Fixture, after: u64) -> Vec<NumberedEvent> {
    block_on(fixture.store().events(after, 100)).unwrap()
}

pub(crate) fn every_transition_is_announced_once_in_order(fixture: &Fixture) {
    let id = fixture.submit(email());
    fixture.fail(&fixture.take()).unwrap();
    let claimed = fixture.take();
    fixture.must(id, Command::Cancel);
    fixture.beat(&claimed);
    fixture.fail(&claimed).unwrap();
    fixture.redrive(id);
    assert!(events(fixture, 0).is_empty(), "what has no number is not read");
    assert_eq!(number(fixture, 100), 6);
    use EventKind::{Cancelled, Queued, Redriven, Retrying, Running};
    let seen: Vec<_> = events(fixture, 0).iter().map(|e| (e.event.kind, e.event.id())).collect();
    let expected =
        [(Queued, 1), (Running, 2), (Retrying, 3), (Running, 4), (Cancelled, 6), (Redriven, 7)];
    assert_eq!(seen, expected.map(|(kind, seq)| (kind, (id, seq))));
    assert!(events(fixture, 0).iter().all(|e| e.event.job.seq == e.event.id().1), "as it was then");
}

pub(crate) fn numbers_have_no_gaps_and_do_not_change(fixture: &Fixture) {
    fixture.submit_many(5, "default");
    assert_eq!((number(fixture, 2), number(fixture, 2)), (2, 2));
    let first = events(fixture, 0);
    fixture.submit_many(5, "default");
    assert_eq!((number(fixture, 100), number(fixture, 100)), (6, 0));
    let all = events(fixture, 0);
    assert!(all.iter().map(|event| event.number).eq(1..=10));
    assert_eq!(all[..4], first);
    assert_eq!(events(fixture, 7), all[7..]);
    assert_eq!(block_on(fixture.store().events(3, 2)).unwrap(), all[3..5]);
    (fixture.restart)();
    assert_eq!(events(fixture, 0), all);
}

pub(crate) fn old_announcements_go_and_numbers_go_on(fixture: &Fixture) {
    fixture.submit(email());
    number(fixture, 100);
    fixture.pass(7 * 86_400);
    fixture.submit(email());
    number(fixture, 100);
    fixture.prune_leftovers(100);
    let left: Vec<_> = events(fixture, 0).iter().map(|event| event.number).collect();
    assert_eq!(left, [2]);
    fixture.submit(email());
    fixture.pass(30 * 86_400);
    fixture.prune_leftovers(100);
    assert_eq!(number(fixture, 100), 1, "what no reader could see yet is not dropped");
    assert_eq!(events(fixture, 0)[0].number, 3);
}

fn events_of_job(fixture: &Fixture, id: JobId, after: u64) -> Vec<Event> {
    block_on(fixture.store().events_of_job(&Scope::All, id, after)).unwrap()
}

fn seqs(fixture: &Fixture, id: JobId, after: u64) -> Vec<u64> {
    events_of_job(fixture, id, after).iter().map(|event| event.job.seq).collect()
}

/// A job with so much history that its oldest rows have moved to a table of their own, and another
/// job beside it.
pub(crate) fn a_job_s_announcements_are_read_from_a_row_on(fixture: &Fixture) {
    let id = fixture.submit(email());
    for _ in 0..engine::RELEASES_MAX {
        let token = token(&fixture.take());
        fixture.must(fixture.submit_as(email(), "birch"), Command::Cancel);
        let (reason, delay) = (engine::ReleaseReason::Snoozed, std::time::Duration::ZERO);
        fixture.must(id, Command::Release { token, reason, delay });
    }
    let last = fixture.job(id).seq;
    let all = events_of_job(fixture, id, 0);
    number(fixture, 1_000_000);
    let events: Vec<Event> =
        block_on(fixture.store().events(0, 1_000)).unwrap().into_iter().map(|e| e.event).collect();
    let own: Vec<Event> = events.into_iter().filter(|event| event.job.id() == id).collect();
    assert_eq!(all, own, "in order and as it was then, before there are numbers");
    assert_eq!(events_of_job(fixture, id, 0), own, "and after");
    for after in [1, 7, 8, 9, last - 1, last, last + 1, u64::MAX] {
        let later = own.iter().filter(|event| event.job.seq > after).cloned();
        assert_eq!(events_of_job(fixture, id, after), later.collect::<Vec<_>>(), "after {after}");
    }
    let foreign = block_on(fixture.store().events_of_job(&only("birch"), id, 0)).unwrap();
    assert!(foreign.is_empty(), "no tenant hears of another's job");
    assert!(events_of_job(fixture, JobId::from_bytes([1; 16]), 0).is_empty());
    (fixture.restart)();
    assert_eq!(events_of_job(fixture, id, 0), own);
}

pub(crate) fn old_announcements_of_a_job_are_left_out(fixture: &Fixture) {
    let id = fixture.submit(email());
    let claimed = fixture.take();
    number(fixture, 1);
    fixture.pass(7 * 86_400);
    fixture.prune_leftovers(100);
    assert_eq!(seqs(fixture, id, 0), [2], "what has no number is kept");
    number(fixture, 10);
    fixture.complete(&claimed).unwrap();
    assert_eq!(seqs(fixture, id, 0), [2, 3]);
    fixture.prune_leftovers(100);
    assert_eq!(seqs(fixture, id, 0), [3]);
}

pub(crate) fn an_erased_job_has_no_outbox_events(fixture: &Fixture) {
    let id = fixture.submit(email());
    fixture.must(id, Command::Cancel);
    number(fixture, 1);
    assert_eq!(seqs(fixture, id, 0), [1, 2]);
    fixture.must(id, Command::Erase);
    assert!(events_of_job(fixture, id, 0).is_empty());
}
