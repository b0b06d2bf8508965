//! What time demands: expiry, silence, slowness, retention, old rows.

use super::house::{House, email, keyed};
use crate::Request;
use engine::{Command, JobDraft, Policy, Refusal, Scope, Status, Timestamp};
use pollster::block_on;
use std::time::Duration;

const DAY: u64 = 86_400;

fn overdue(house: &House, limit: usize) -> usize {
    block_on(house.store().overdue(limit)).unwrap().len()
}

pub(crate) fn what_is_overdue_comes_in_pages(house: &House) {
    let expiring = || JobDraft { expires_at: Some(1_800_000_001_000), ..email() };
    let jobs = (0..25).map(|_| house.new_job(expiring(), "acme")).collect();
    house.one(Request::Submit(jobs)).unwrap();
    house.pass(1);
    for left in [25, 15, 5] {
        let page = block_on(house.store().overdue(10)).unwrap();
        assert_eq!(page.len(), left.min(10), "a page is never longer than it may be");
        for late in page {
            house.must(late.id, late.command);
        }
    }
    assert_eq!(overdue(house, 10), 0);
}

pub(crate) fn an_expired_job_is_found_and_cancelled(house: &House) {
    let id = house.submit(JobDraft { expires_at: Some(1_800_000_001_000), ..email() });
    house.pass(1);
    assert_eq!(house.sweep(), [id]);
    let job = house.job(id);
    assert_eq!(job.status(), Status::Cancelled);
    assert_eq!(job.life.last_failure.unwrap().code.as_str(), "JOB_EXPIRED");
}

pub(crate) fn what_becomes_due_next_is_told(house: &House) {
    let next = |after: Timestamp| block_on(house.store().next_due(after)).unwrap();
    let now = next(Timestamp::default()).now;
    assert_eq!(next(now).due_at, None, "nobody waits");
    let later = |job_type: &str, priority, delay| JobDraft {
        job_type: job_type.into(),
        priority: Some(priority),
        delay_seconds: Some(delay),
        ..email()
    };
    house.submit(later("email", 4, 60));
    house.submit(later("email", 9, 40));
    house.submit(later("invoice", 4, 50));
    let seconds = |s| Some(now + Duration::from_secs(s));
    assert_eq!(next(now).due_at, seconds(40));
    assert_eq!(next(now + Duration::from_secs(40)).due_at, seconds(50), "behind that moment");
    house.pass(55);
    let found = next(now);
    assert_eq!((found.due_at, found.now), (seconds(40), now + Duration::from_secs(55)), "overdue");
    house.take();
    assert_eq!(next(found.now).due_at, seconds(60), "what runs is not due");
}

pub(crate) fn a_silent_worker_is_found(house: &House) {
    let id = house.submit(email());
    for losses in 1..=3 {
        house.take();
        house.pass(30);
        assert_eq!(house.sweep(), [id]);
        assert_eq!(house.job(id).life.losses, losses);
        house.pass(600);
    }
    let job = house.job(id);
    assert_eq!(job.status(), Status::Poisoned);
    assert_eq!(job.life.last_failure.unwrap().code.as_str(), "WORKER_LOST");
}

pub(crate) fn a_slow_handler_is_found(house: &House) {
    let policy = Policy { timeout: Duration::from_secs(60), ..Policy::default() };
    house.set_policy("email", policy);
    let id = house.submit(email());
    let claimed = house.take();
    for _ in 0..6 {
        assert!(house.sweep().is_empty());
        house.pass(10);
        house.beat(&claimed);
    }
    assert_eq!(house.sweep(), [id], "no heartbeat reaches beyond the timeout");
    assert_eq!(house.job(id).life.last_failure.unwrap().code.as_str(), "HANDLER_TIMEOUT");
}

pub(crate) fn nothing_is_overdue_before_its_time(house: &House) {
    house.submit(JobDraft { expires_at: Some(1_800_000_100_000), ..email() });
    house.submit(email());
    let claimed = house.take();
    house.pass(29);
    assert_eq!(overdue(house, 10), 0);
    house.complete(&claimed).unwrap();
    house.pass(30 * DAY - 1);
    house.sweep();
    assert!(house.find(claimed.job.id()).is_some(), "kept for its retention");
}

pub(crate) fn an_old_job_is_purged_with_all_that_is_its(house: &House) {
    let id = house.submit(email());
    house.complete(&house.take()).unwrap();
    house.pass(30 * DAY);
    assert_eq!(house.sweep(), [id]);
    assert!(house.find(id).is_none() && house.history(id).is_empty());
    assert_eq!(block_on(house.store().payload(&Scope::All, id)).unwrap(), None);
    let counts = house.depth("email").counts;
    assert_eq!((counts.submitted, counts.completed, counts.erased), (1, 0, 1));
}

pub(crate) fn a_poisoned_job_waits_for_a_person(house: &House) {
    let id = house.submit(email());
    house.poison(&house.take());
    house.pass(365 * DAY);
    assert!(house.sweep().is_empty());
    house.must(id, Command::Discard);
    assert!(house.sweep().is_empty(), "its retention counts from the discard");
    house.pass(30 * DAY);
    assert_eq!(house.sweep(), [id]);
    assert!(house.find(id).is_none());
}

pub(crate) fn a_keyed_job_is_kept_as_long_as_its_key(house: &House) {
    let policy = Policy { retention: Duration::from_secs(60), ..Policy::default() };
    house.set_policy("email", policy);
    let [plain, with_key] = [email(), keyed("k", "1")].map(|draft| {
        let id = house.submit(draft);
        house.complete(&house.take()).unwrap();
        id
    });
    house.pass(60);
    assert_eq!(house.sweep(), [plain]);
    let again = house.try_submit(keyed("k", "1")).unwrap();
    assert!(again.duplicate && house.find(with_key).is_some(), "its status URL is no dead end");
    house.pass(7 * DAY);
    assert_eq!(house.sweep(), [with_key]);
}

pub(crate) fn old_rows_go_in_bounded_numbers(house: &House) {
    for n in 0..5 {
        house.submit(keyed(&format!("k{n}"), "1"));
        house.complete(&house.take()).unwrap();
    }
    assert_eq!(house.tidy(100), 0, "nothing is old");
    house.pass(8 * DAY);
    assert_eq!(house.tidy(3), 3);
    assert_eq!(house.tidy(2), 2);
    assert_eq!(house.tidy(100), 1, "the worker is long gone");
    assert_eq!(house.tidy(100), 0);
}

pub(crate) fn an_overdue_job_that_settled_meanwhile_stays_as_it_is(house: &House) {
    let id = house.submit(email());
    let claimed = house.take();
    house.pass(60);
    let found = block_on(house.store().overdue(10)).unwrap();
    house.complete(&claimed).unwrap();
    let before = house.job(id);
    for late in found {
        assert_eq!(house.command(late.id, late.command), Err(Refusal::NotDue));
    }
    assert_eq!(house.job(id), before);
}
