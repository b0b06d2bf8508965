//! Keys: handing over twice makes one job.

use super::house::{House, email, keyed, submitted};
use crate::Request;
use engine::{Command, JobDraft, Policy, Refusal, Status};
use std::time::Duration;

const WEEK: u64 = 7 * 86_400;

pub(crate) fn the_same_key_means_the_same_job(house: &House) {
    let first = house.try_submit(keyed("k", "{\"a\":1}")).unwrap();
    let again = house.try_submit(keyed("k", "{ \"a\" : 1.0 }")).unwrap();
    assert_eq!((again.job_id, again.duplicate), (first.job_id, true));
    assert_eq!(again.correlation, first.correlation, "the first job's, not the repeat's");
    let claimed = house.take();
    house.complete(&claimed).unwrap();
    let late = house.try_submit(keyed("k", "{\"a\":1}")).unwrap();
    assert_eq!((late.job_id, late.status), (first.job_id, Status::Completed));
    assert_eq!(house.depth("email").counts.submitted, 1);
}

pub(crate) fn another_job_under_a_key_is_refused(house: &House) {
    let first = house.submit(keyed("k", "1"));
    let reused = Refusal::KeyReused { holder: first };
    assert_eq!(house.try_submit(keyed("k", "2")).unwrap_err(), reused);
    let other_subject = JobDraft { subject_id: Some("s".into()), ..keyed("k", "1") };
    assert_eq!(house.try_submit(other_subject).unwrap_err(), reused);
    assert_eq!(house.depth("email").counts.submitted, 1);
}

pub(crate) fn a_key_lives_a_window_longer_than_its_job(house: &House) {
    let first = house.submit(keyed("k", "1"));
    house.pass(10 * WEEK);
    assert_eq!(house.submit(keyed("k", "1")), first, "never shorter than the life");
    house.complete(&house.take()).unwrap();
    house.pass(WEEK - 1);
    assert_eq!(house.submit(keyed("k", "1")), first);
    house.pass(1);
    assert_ne!(house.submit(keyed("k", "1")), first);
}

pub(crate) fn an_expired_key_is_free_swept_or_not(house: &House) {
    for sweep in [false, true] {
        let key = format!("k{sweep}");
        let first = house.submit(keyed(&key, "1"));
        house.complete(&house.take()).unwrap();
        house.pass(WEEK);
        if sweep {
            assert!(house.tidy(10) >= 1, "the expired key is dropped");
        }
        let second = house.submit(keyed(&key, "2"));
        assert_ne!(first, second);
        assert_eq!(house.submit(keyed(&key, "2")), second, "and now it is the new job's");
        house.complete(&house.take()).unwrap();
    }
}

pub(crate) fn a_redriven_job_takes_its_key_back(house: &House) {
    for sweep in [false, true] {
        let key = format!("k{sweep}");
        let first = house.submit(keyed(&key, "1"));
        house.poison(&house.take());
        house.pass(WEEK);
        if sweep {
            house.tidy(10);
        }
        house.redrive(first);
        let again = house.try_submit(keyed(&key, "1")).unwrap();
        assert_eq!((again.job_id, again.duplicate), (first, true), "it lives, and so does its key");
        house.complete(&house.take()).unwrap();
    }
}

pub(crate) fn a_redriven_job_does_not_take_a_key_from_another(house: &House) {
    let first = house.submit(keyed("k", "1"));
    house.poison(&house.take());
    house.pass(WEEK);
    let second = house.submit(keyed("k", "2"));
    house.redrive(first);
    assert_eq!(house.submit(keyed("k", "2")), second);
    let reused = house.try_submit(keyed("k", "1")).unwrap_err();
    assert_eq!(reused, Refusal::KeyReused { holder: second });
}

pub(crate) fn keys_of_other_types_and_tenants_are_other_keys(house: &House) {
    let scan = JobDraft { job_type: "scan".into(), ..keyed("k", "1") };
    let ids = [
        house.submit_as(keyed("k", "1"), "acme"),
        house.submit_as(keyed("k", "1"), "birch"),
        house.submit_as(scan, "acme"),
        house.submit_as(keyed("K", "1"), "acme"),
    ];
    let mut distinct = ids.to_vec();
    distinct.dedup();
    assert_eq!(distinct.len(), 4);
}

pub(crate) fn an_erased_job_frees_its_key(house: &House) {
    let first = house.submit(keyed("k", "1"));
    house.complete(&house.take()).unwrap();
    house.must(first, Command::Erase);
    assert_ne!(house.submit(keyed("k", "2")), first);
}

pub(crate) fn a_list_is_taken_whole_or_not_at_all(house: &House) {
    house.submit(keyed("taken", "1"));
    let list = [email(), keyed("fresh", "1"), keyed("taken", "2"), email()];
    let jobs = list.into_iter().map(|draft| house.new_job(draft, "default")).collect();
    let refused = house.one(Request::Submit(jobs)).unwrap_err();
    let Refusal::Item { index, refusal } = refused else { panic!("it names the item: {refused}") };
    assert_eq!((index, refusal.code()), (2, "IDEMPOTENCY_KEY_REUSED"));
    assert_eq!(house.depth("email").counts.submitted, 1, "nothing of it is stored");
    assert!(!house.try_submit(keyed("fresh", "3")).unwrap().duplicate, "not even its key");
}

pub(crate) fn a_key_twice_in_one_list_means_one_job(house: &House) {
    let policy = Policy { max_queued: Some(2), ..Policy::default() };
    house.set_policy("email", Policy { key_window: Duration::ZERO, ..policy });
    let list = [keyed("k", "1"), email(), keyed("k", "1")];
    let jobs = list.into_iter().map(|draft| house.new_job(draft, "default")).collect();
    let answers = submitted(house.one(Request::Submit(jobs)).unwrap());
    assert_eq!(answers[0].job_id, answers[2].job_id);
    assert_eq!(answers.iter().map(|a| a.duplicate).collect::<Vec<_>>(), [false, false, true]);
    assert_eq!(house.depth("email").counts.submitted, 2);
}
