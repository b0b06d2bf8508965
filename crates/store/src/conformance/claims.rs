//! Which jobs a claim gets, and what a repeated one gets.

use super::house::{House, claiming, email, job_type, token, wish};
use crate::{Answer, Claimed};
use engine::{CLAIM_BYTES_MAX, JobDraft, JobId, Status, Wish};
use std::{collections::BTreeSet, time::Duration};

fn ids(jobs: &[Claimed]) -> Vec<JobId> {
    jobs.iter().map(|claimed| claimed.job.id()).collect()
}

fn owners(jobs: &[Claimed]) -> BTreeSet<&str> {
    jobs.iter().map(|claimed| claimed.job.envelope.tenant.as_str()).collect()
}

pub(crate) fn priority_goes_before_due_time(house: &House) {
    let with = |priority| JobDraft { priority: Some(priority), ..email() };
    let low = house.submit(with(0));
    house.pass(1);
    let high = house.submit(with(9));
    house.pass(1);
    let (first, usual) = (house.submit(email()), JobDraft { priority: Some(4), ..email() });
    house.pass(1);
    let second = house.submit(usual);
    let claimed = house.claim(wish("w", "c", &["email"], 10));
    assert_eq!(ids(&claimed), [high, first, second, low]);
}

pub(crate) fn only_due_jobs_are_given(house: &House) {
    let later = JobDraft { delay_seconds: Some(60), priority: Some(9), ..email() };
    let later = house.submit(later);
    let now = house.submit(email());
    assert_eq!(ids(&house.claim(wish("w", "c1", &["email"], 10))), [now]);
    house.pass(59);
    assert!(house.claim(wish("w", "c2", &["email"], 10)).is_empty());
    house.pass(1);
    assert_eq!(ids(&house.claim(wish("w", "c3", &["email"], 10))), [later]);
}

pub(crate) fn an_expired_job_does_not_block_the_line(house: &House) {
    let soon = 1_800_000_000_000 + 5_000;
    for _ in 0..20 {
        house.submit(JobDraft { priority: Some(9), expires_at: Some(soon), ..email() });
    }
    let good = house.submit(email());
    house.pass(5);
    assert_eq!(ids(&house.claim(wish("w", "c", &["email"], 5))), [good]);
}

pub(crate) fn queues_are_served_in_turn(house: &House) {
    for owner in ["acme", "birch", "cedar"] {
        house.submit_many(9, owner);
    }
    let six = house.claim(wish("w", "c", &["email"], 6));
    for owner in ["acme", "birch", "cedar"] {
        let got = six.iter().filter(|c| c.job.envelope.tenant.as_str() == owner).count();
        assert_eq!(got, 2, "{owner}");
    }
    let singles: Vec<Claimed> =
        (0..3).flat_map(|n| house.claim(wish("w", &format!("s{n}"), &["email"], 1))).collect();
    assert_eq!(owners(&singles).len(), 3, "turns go on from claim to claim");
}

pub(crate) fn one_job_is_not_starved_by_a_hundred_thousand(house: &House) {
    for _ in 0..100 {
        house.submit_many(1_000, "acme");
    }
    house.submit_as(email(), "birch");
    let two = house.claim(wish("w", "c", &["email"], 2));
    assert_eq!(owners(&two).len(), 2);
    let full = house.claim(wish("w", "d", &["email"], 10));
    assert_eq!(full.len(), 10, "whoever has more fills up the rest");
}

pub(crate) fn workers_of_different_types_do_not_starve_a_queue(house: &House) {
    for owner in ["acme", "birch"] {
        house.submit_many(20, owner);
    }
    for _ in 0..20 {
        house.submit(JobDraft { job_type: "scan".into(), ..email() });
    }
    let mut emails = Vec::new();
    for turn in 0..4 {
        emails.extend(house.claim(wish("w1", &format!("e{turn}"), &["email"], 1)));
        house.claim(wish("w2", &format!("s{turn}"), &["scan"], 1));
    }
    assert_eq!(owners(&emails).len(), 2, "another type's turns do not skip a queue");
}

pub(crate) fn a_claim_takes_only_its_types(house: &House) {
    let scan = house.submit(JobDraft { job_type: "scan".into(), ..email() });
    house.submit(email());
    assert_eq!(ids(&house.claim(wish("w", "c", &["scan", "other"], 10))), [scan]);
}

pub(crate) fn claims_of_one_batch_share_no_job(house: &House) {
    let scan = house.submit(JobDraft { job_type: "scan".into(), ..email() });
    let mail = house.submit(email());
    let wishes = [&["email", "scan"][..], &["email"], &["scan"], &["scan", "email"]];
    let claims = wishes.iter().enumerate().map(|(n, types)| wish(&format!("w{n}"), "c", types, 5));
    let mut got = Vec::new();
    for reply in house.run(claims.map(claiming).collect()) {
        let Ok(Answer::Claimed(jobs)) = reply else { panic!("{reply:?}") };
        got.extend(ids(&jobs));
    }
    got.sort();
    let mut both = [scan, mail];
    both.sort();
    assert_eq!(got, both, "each is given once");
    for id in both {
        assert_eq!((house.job(id).life.attempt, house.history(id).len()), (1, 2));
    }
}

pub(crate) fn a_repeated_claim_gets_the_same_leases(house: &House) {
    house.submit_many(5, "default");
    let first = house.claim(wish("w", "c", &["email"], 3));
    house.pass(5);
    let again = house.claim(wish("w", "c", &["email"], 3));
    let leases = |jobs: &[Claimed]| -> BTreeSet<_> {
        jobs.iter().map(|claimed| (claimed.job.id(), token(claimed))).collect()
    };
    assert_eq!(leases(&first), leases(&again));
    assert!(again.iter().all(|claimed| claimed.job.life.attempt == 1), "no further attempt");
    assert_eq!(house.depth("email").counts.running, 3);
    house.complete(&first[0]).unwrap();
    let rest = house.claim(wish("w", "c", &["email"], 3));
    assert_eq!(leases(&rest), leases(&first[1..]), "what is still held, and no more");
    let other = house.claim(wish("v", "c", &["email"], 9));
    assert_eq!(other.len(), 2, "the name belongs to its worker");
}

pub(crate) fn a_claim_of_other_types_gets_nothing_under_the_same_name(house: &House) {
    let id = house.submit(email());
    house.claim(wish("w", "c", &["email"], 1));
    assert!(house.claim(wish("w", "c", &["scan"], 1)).is_empty(), "it may not know of emails");
    assert_eq!(ids(&house.claim(wish("w", "c", &["scan", "email"], 1))), [id]);
}

/// What claims were given is forgotten after an hour, which begins anew when a name is used again.
pub(crate) fn a_claim_under_an_old_name_is_remembered_from_when_it_was_given_jobs(house: &House) {
    house.submit_many(3, "default");
    let first = house.claim(wish("w", "c", &["email"], 1));
    house.complete(&first[0]).expect("it runs");
    house.pass(3_599);
    let second = house.claim(wish("w", "c", &["email"], 1));
    house.pass(2);
    house.tidy(100);
    let again = house.claim(wish("w", "c", &["email"], 1));
    assert_eq!(ids(&again), ids(&second));
}

pub(crate) fn a_repeated_claim_without_leases_is_a_new_one(house: &House) {
    assert!(house.claim(wish("w", "c", &["email"], 1)).is_empty());
    let id = house.submit(email());
    let claimed = house.claim(wish("w", "c", &["email"], 1));
    assert_eq!(ids(&claimed), [id]);
}

pub(crate) fn a_claim_brings_the_payload(house: &House) {
    let payload = "{\"to\": \"ä\", \"n\": 1e2}";
    house.submit(JobDraft { payload: Some(payload.into()), ..email() });
    let claimed = house.take();
    assert_eq!(claimed.payload.as_str(), payload);
    assert_eq!(claimed.job.status(), Status::Running);
    assert_eq!(claimed.job.envelope.job_type, job_type("email"));
}

pub(crate) fn a_claim_is_never_larger_than_its_bound(house: &House) {
    for _ in 0..2 {
        house.submit_many(1_000, "acme");
    }
    assert_eq!(house.claim(wish("w", "c", &["email"], usize::MAX)).len(), 1_000);
    assert!(house.claim(wish("w", "d", &["email"], 0)).is_empty());
    assert!(house.claim(wish("w", "e", &[], 10)).is_empty());
}

pub(crate) fn a_claim_holds_as_long_as_it_asked(house: &House) {
    house.submit_many(2, "acme");
    let usual = house.take();
    let lease = Some(Duration::from_secs(100));
    let patient = house.claim(Wish { lease, ..wish("w", "c", &["email"], 1) }).remove(0);
    let length = |claimed: &Claimed| {
        let lease = claimed.job.lease().unwrap();
        lease.expires_at.since(lease.started_at).as_secs()
    };
    assert_eq!((length(&usual), length(&patient)), (30, 100));
    house.pass(50);
    assert_eq!(house.sweep(), [usual.job.id()]);
}

pub(crate) fn a_claim_ends_when_its_payloads_are_large_enough(house: &House) {
    let large = || JobDraft { payload: Some(format!("\"{}\"", "x".repeat(60_000))), ..email() };
    for _ in 0..2 {
        let jobs = (0..100).map(|_| house.new_job(large(), "acme")).collect();
        house.one(crate::Request::Submit(jobs)).unwrap();
    }
    let first = house.claim(wish("w", "c1", &["email"], 1_000));
    let bytes: usize = first.iter().map(|claimed| claimed.payload.as_str().len()).sum();
    assert!((CLAIM_BYTES_MAX..CLAIM_BYTES_MAX + 100_000).contains(&bytes), "{bytes} bytes");
    let second = house.claim(wish("w", "c2", &["email"], 1_000));
    assert_eq!(first.len() + second.len(), 200, "and nobody is forgotten");
}

/// A claim is named by the credential that sent it, too: two that send one text have nothing in
/// common.
pub(crate) fn a_claim_of_another_principal_is_another_claim(house: &House) {
    let of = |who: &str| {
        let wish = wish("w", "c", &["email"], 1);
        Wish { claim: wish.claim.of_principal(who), ..wish }
    };
    let first = house.submit(email());
    let held = house.claim(of("key:1"));
    assert_eq!(ids(&held), [first]);
    assert!(house.claim(of("key:2")).is_empty(), "nothing of the other's");
    let second = house.submit(email());
    assert_eq!(ids(&house.claim(of("key:2"))), [second]);
    (house.restart)();
    for (who, id) in [("key:1", first), ("key:2", second)] {
        assert_eq!(ids(&house.claim(of(who))), [id], "each gets its own again");
    }
    assert_eq!(token(&house.claim(of("key:1"))[0]), token(&held[0]));
}
