//! What time brings about: expiry, lost workers, timeouts, retention, pruning.

use super::fixture::{Fixture, email, keyed};
use crate::Request;
use engine::{Command, JobDraft, Policy, Refusal, Scope, Status, Timestamp};
use pollster::block_on;
use std::time::Duration;

const DAY: u64 = 86_400;

fn overdue(fixture: &Fixture, limit: usize) -> usize {
    block_on(fixture.store().overdue(limit)).unwrap().len()
}

pub(crate) fn overdue_jobs_are_read_in_pages(fixture: &Fixture) {
    let expiring = || JobDraft { expires_at: Some(1_800_000_001_000), ..email() };
    let jobs = (0..25).map(|_| fixture.new_job(expiring(), "acme")).collect();
    fixture.one(Request::Submit(jobs)).unwrap();
    fixture.pass(1);
    for left in [25, 15, 5] {
        let page = block_on(fixture.store().overdue(10)).unwrap();
        assert_eq!(page.len(), left.min(10), "a page is never longer than it may be");
        for late in page {
            fixture.must(late.id, late.command);
        }
    }
    assert_eq!(overdue(fixture, 10), 0);
}

pub(crate) fn an_expired_job_is_found_and_cancelled(fixture: &Fixture) {
    let id = fixture.submit(JobDraft { expires_at: Some(1_800_000_001_000), ..email() });
    fixture.pass(1);
    assert_eq!(fixture.sweep(), [id]);
    let job = fixture.job(id);
    assert_eq!(job.status(), Status::Cancelled);
    assert_eq!(job.life.last_failure.unwrap().code.as_str(), "JOB_EXPIRED");
}

pub(crate) fn the_store_reports_when_the_next_job_is_due(fixture: &Fixture) {
    let next = |after: Timestamp| block_on(fixture.store().next_due(after)).unwrap();
    let now = next(Timestamp::default()).now;
    assert_eq!(next(now).due_at, None, "no job waits");
    let later = |job_type: &str, priority, delay| JobDraft {
        job_type: job_type.into(),
        priority: Some(priority),
        delay_seconds: Some(delay),
        ..email()
    };
    fixture.submit(later("email", 4, 60));
    fixture.submit(later("email", 9, 40));
    fixture.submit(later("invoice", 4, 50));
    let seconds = |s| Some(now + Duration::from_secs(s));
    assert_eq!(next(now).due_at, seconds(40));
    assert_eq!(next(now + Duration::from_secs(40)).due_at, seconds(50), "behind that moment");
    fixture.pass(55);
    let upcoming = next(now);
    assert_eq!(
        (upcoming.due_at, upcoming.now),
        (seconds(40), now + Duration::from_secs(55)),
        "overdue"
    );
    fixture.take();
    assert_eq!(next(upcoming.now).due_at, seconds(60), "what runs is not due");
}

pub(crate) fn a_silent_worker_is_found(fixture: &Fixture) {
    let id = fixture.submit(email());
    for losses in 1..=3 {
        fixture.take();
        fixture.pass(30);
        assert_eq!(fixture.sweep(), [id]);
        assert_eq!(fixture.job(id).life.losses, losses);
        fixture.pass(600);
    }
    let job = fixture.job(id);
    assert_eq!(job.status(), Status::Poisoned);
    assert_eq!(job.life.last_failure.unwrap().code.as_str(), "WORKER_LOST");
}

pub(crate) fn a_slow_handler_is_found(fixture: &Fixture) {
    let policy = Policy { timeout: Duration::from_secs(60), ..Policy::default() };
    fixture.set_policy("email", policy);
    let id = fixture.submit(email());
    let claimed = fixture.take();
    for _ in 0..6 {
        assert!(fixture.sweep().is_empty());
        fixture.pass(10);
        fixture.beat(&claimed);
    }
    assert_eq!(fixture.sweep(), [id], "no heartbeat reaches beyond the timeout");
    assert_eq!(fixture.job(id).life.last_failure.unwrap().code.as_str(), "HANDLER_TIMEOUT");
}

pub(crate) fn no_job_is_overdue_before_its_time(fixture: &Fixture) {
    fixture.submit(JobDraft { expires_at: Some(1_800_000_100_000), ..email() });
    fixture.submit(email());
    let claimed = fixture.take();
    fixture.pass(29);
    assert_eq!(overdue(fixture, 10), 0);
    fixture.complete(&claimed).unwrap();
    fixture.pass(30 * DAY - 1);
    fixture.sweep();
    assert!(fixture.find(claimed.job.id()).is_some(), "kept for its retention");
}

pub(crate) fn an_old_job_is_purged_with_all_that_is_its(fixture: &Fixture) {
    let id = fixture.submit(email());
    fixture.complete(&fixture.take()).unwrap();
    fixture.pass(30 * DAY);
    assert_eq!(fixture.sweep(), [id]);
    assert!(fixture.find(id).is_none() && fixture.history(id).is_empty());
    assert_eq!(block_on(fixture.store().payload(&Scope::All, id)).unwrap(), None);
    let counts = fixture.depth("email").counts;
    assert_eq!((counts.submitted, counts.completed, counts.erased), (1, 0, 1));
}

pub(crate) fn a_poisoned_job_waits_for_a_person(fixture: &Fixture) {
    let id = fixture.submit(email());
    fixture.poison(&fixture.take());
    fixture.pass(365 * DAY);
    assert!(fixture.sweep().is_empty());
    fixture.must(id, Command::Discard);
    assert!(fixture.sweep().is_empty(), "its retention counts from the discard");
    fixture.pass(30 * DAY);
    assert_eq!(fixture.sweep(), [id]);
    assert!(fixture.find(id).is_none());
}

pub(crate) fn a_keyed_job_is_kept_as_long_as_its_key(fixture: &Fixture) {
    let policy = Policy { retention: Duration::from_secs(60), ..Policy::default() };
    fixture.set_policy("email", policy);
    let [plain, with_key] = [email(), keyed("k", "1")].map(|draft| {
        let id = fixture.submit(draft);
        fixture.complete(&fixture.take()).unwrap();
        id
    });
    fixture.pass(60);
    assert_eq!(fixture.sweep(), [plain]);
    let again = fixture.try_submit(keyed("k", "1")).unwrap();
    assert!(again.duplicate && fixture.find(with_key).is_some(), "its status URL is no dead end");
    fixture.pass(7 * DAY);
    assert_eq!(fixture.sweep(), [with_key]);
}

pub(crate) fn old_rows_go_in_bounded_numbers(fixture: &Fixture) {
    for n in 0..5 {
        fixture.submit(keyed(&format!("k{n}"), "1"));
        fixture.complete(&fixture.take()).unwrap();
    }
    assert_eq!(fixture.prune_leftovers(100), 0, "nothing is old");
    fixture.pass(8 * DAY);
    assert_eq!(fixture.prune_leftovers(3), 3);
    assert_eq!(fixture.prune_leftovers(2), 2);
    assert_eq!(fixture.prune_leftovers(100), 1, "the worker is long gone");
    assert_eq!(fixture.prune_leftovers(100), 0);
}

pub(crate) fn an_overdue_job_that_settled_meanwhile_stays_as_it_is(fixture: &Fixture) {
    let id = fixture.submit(email());
    let claimed = fixture.take();
    fixture.pass(60);
    let overdue = block_on(fixture.store().overdue(10)).unwrap();
    fixture.complete(&claimed).unwrap();
    let before = fixture.job(id);
    for late in overdue {
        assert_eq!(fixture.command(late.id, late.command), Err(Refusal::NotDue));
    }
    assert_eq!(fixture.job(id), before);
}
