//! Idempotency keys: submitting twice makes one job.

use super::fixture::{Fixture, email, keyed, submitted};
use crate::Request;
use engine::{Command, JobDraft, Policy, Refusal, Status};
use std::time::Duration;

const WEEK: u64 = 7 * 86_400;

pub(crate) fn the_same_key_means_the_same_job(fixture: &Fixture) {
    let first = fixture.try_submit(keyed("k", "{\"a\":1}")).unwrap();
    let again = fixture.try_submit(keyed("k", "{ \"a\" : 1.0 }")).unwrap();
    assert_eq!((again.job_id, again.duplicate), (first.job_id, true));
    assert_eq!(again.correlation, first.correlation, "the first job's, not the repeat's");
    let claimed = fixture.take();
    fixture.complete(&claimed).unwrap();
    let late = fixture.try_submit(keyed("k", "{\"a\":1}")).unwrap();
    assert_eq!((late.job_id, late.status), (first.job_id, Status::Completed));
    assert_eq!(fixture.depth("email").counts.submitted, 1);
}

pub(crate) fn another_job_under_a_key_is_refused(fixture: &Fixture) {
    let first = fixture.submit(keyed("k", "1"));
    let reused = Refusal::KeyReused { holder: first };
    assert_eq!(fixture.try_submit(keyed("k", "2")).unwrap_err(), reused);
    let other_subject = JobDraft { subject_id: Some("s".into()), ..keyed("k", "1") };
    assert_eq!(fixture.try_submit(other_subject).unwrap_err(), reused);
    assert_eq!(fixture.depth("email").counts.submitted, 1);
}

pub(crate) fn a_key_lives_a_window_longer_than_its_job(fixture: &Fixture) {
    let first = fixture.submit(keyed("k", "1"));
    fixture.pass(10 * WEEK);
    assert_eq!(fixture.submit(keyed("k", "1")), first, "never shorter than the life");
    fixture.complete(&fixture.take()).unwrap();
    fixture.pass(WEEK - 1);
    assert_eq!(fixture.submit(keyed("k", "1")), first);
    fixture.pass(1);
    assert_ne!(fixture.submit(keyed("k", "1")), first);
}

pub(crate) fn an_expired_key_is_free_swept_or_not(fixture: &Fixture) {
    for sweep in [false, true] {
        let key = format!("k{sweep}");
        let first = fixture.submit(keyed(&key, "1"));
        fixture.complete(&fixture.take()).unwrap();
        fixture.pass(WEEK);
        if sweep {
            assert!(fixture.prune_leftovers(10) >= 1, "the expired key is dropped");
        }
        let second = fixture.submit(keyed(&key, "2"));
        assert_ne!(first, second);
        assert_eq!(fixture.submit(keyed(&key, "2")), second, "and now it is the new job's");
        fixture.complete(&fixture.take()).unwrap();
    }
}

pub(crate) fn a_redriven_job_takes_its_key_back(fixture: &Fixture) {
    for sweep in [false, true] {
        let key = format!("k{sweep}");
        let first = fixture.submit(keyed(&key, "1"));
        fixture.poison(&fixture.take());
        fixture.pass(WEEK);
        if sweep {
            fixture.prune_leftovers(10);
        }
        fixture.redrive(first);
        let again = fixture.try_submit(keyed(&key, "1")).unwrap();
        assert_eq!((again.job_id, again.duplicate), (first, true), "it lives, and so does its key");
        fixture.complete(&fixture.take()).unwrap();
    }
}

pub(crate) fn a_redriven_job_does_not_take_a_key_from_another(fixture: &Fixture) {
    let first = fixture.submit(keyed("k", "1"));
    fixture.poison(&fixture.take());
    fixture.pass(WEEK);
    let second = fixture.submit(keyed("k", "2"));
    fixture.redrive(first);
    assert_eq!(fixture.submit(keyed("k", "2")), second);
    let reused = fixture.try_submit(keyed("k", "1")).unwrap_err();
    assert_eq!(reused, Refusal::KeyReused { holder: second });
}

pub(crate) fn a_key_yields_after_a_dead_end_and_to_no_other_job(fixture: &Fixture) {
    let anew =
        |key: &str, payload: &str| JobDraft { on_ended: Some("new".into()), ..keyed(key, payload) };
    let first = fixture.submit(keyed("k", "1"));
    assert_eq!(fixture.submit(anew("k", "1")), first, "it is live");
    fixture.poison(&fixture.take());
    assert_eq!(fixture.submit(keyed("k", "1")), first, "the client did not ask for a new job");
    let second = fixture.try_submit(anew("k", "2")).unwrap();
    assert!(second.job_id != first && !second.duplicate, "not even of the same content");
    let again = fixture.try_submit(anew("k", "2")).unwrap();
    assert_eq!((again.job_id, again.duplicate), (second.job_id, true), "the new job has the key");
    fixture.redrive(first);
    assert_eq!(fixture.submit(keyed("k", "2")), second.job_id, "the first job is no longer its");
    fixture.must(first, Command::Cancel);
    fixture.complete(&fixture.take()).unwrap();
    let late = fixture.try_submit(anew("k", "2")).unwrap();
    assert_eq!((late.job_id, late.duplicate), (second.job_id, true), "a completed job keeps it");
    assert_eq!(fixture.try_submit(anew("k", "3")).unwrap_err().code(), "IDEMPOTENCY_KEY_REUSED");
    let cancelled = fixture.submit(keyed("other", "1"));
    fixture.must(cancelled, Command::Cancel);
    assert_ne!(fixture.submit(anew("other", "1")), cancelled);
    (fixture.restart)();
    assert_ne!(fixture.submit(keyed("other", "1")), cancelled);
}

pub(crate) fn keys_of_other_types_and_tenants_are_other_keys(fixture: &Fixture) {
    let scan = JobDraft { job_type: "scan".into(), ..keyed("k", "1") };
    let ids = [
        fixture.submit_as(keyed("k", "1"), "acme"),
        fixture.submit_as(keyed("k", "1"), "birch"),
        fixture.submit_as(scan, "acme"),
        fixture.submit_as(keyed("K", "1"), "acme"),
    ];
    let mut distinct = ids.to_vec();
    distinct.dedup();
    assert_eq!(distinct.len(), 4);
}

pub(crate) fn an_erased_job_frees_its_key(fixture: &Fixture) {
    let first = fixture.submit(keyed("k", "1"));
    fixture.complete(&fixture.take()).unwrap();
    fixture.must(first, Command::Erase);
    assert_ne!(fixture.submit(keyed("k", "2")), first);
}

pub(crate) fn a_list_is_taken_whole_or_not_at_all(fixture: &Fixture) {
    fixture.submit(keyed("taken", "1"));
    let list = [email(), keyed("fresh", "1"), keyed("taken", "2"), email()];
    let jobs = list.into_iter().map(|draft| fixture.new_job(draft, "default")).collect();
    let refused = fixture.one(Request::Submit(jobs)).unwrap_err();
    let Refusal::Item { index, refusal } = refused else { panic!("it names the item: {refused}") };
    assert_eq!((index, refusal.code()), (2, "IDEMPOTENCY_KEY_REUSED"));
    assert_eq!(fixture.depth("email").counts.submitted, 1, "nothing of it is stored");
    assert!(!fixture.try_submit(keyed("fresh", "3")).unwrap().duplicate, "not even its key");
}

pub(crate) fn a_key_twice_in_one_list_means_one_job(fixture: &Fixture) {
    let policy = Policy { max_queued: Some(2), ..Policy::default() };
    fixture.set_policy("email", Policy { key_window: Duration::ZERO, ..policy });
    let list = [keyed("k", "1"), email(), keyed("k", "1")];
    let jobs = list.into_iter().map(|draft| fixture.new_job(draft, "default")).collect();
    let answers = submitted(fixture.one(Request::Submit(jobs)).unwrap());
    assert_eq!(answers[0].job_id, answers[2].job_id);
    assert_eq!(answers.iter().map(|a| a.duplicate).collect::<Vec<_>>(), [false, false, true]);
    assert_eq!(fixture.depth("email").counts.submitted, 2);
}
