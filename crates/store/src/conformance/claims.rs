//! Which jobs a claim gets, and what a repeated claim gets.

use super::fixture::{Fixture, claim_request, claiming, email, job_type, token};
use crate::{Answer, Claimed};
use engine::{CLAIM_BYTES_MAX, ClaimRequest, JobDraft, JobId, Status};
use std::{collections::BTreeSet, time::Duration};

fn ids(jobs: &[Claimed]) -> Vec<JobId> {
    jobs.iter().map(|claimed| claimed.job.id()).collect()
}

fn owners(jobs: &[Claimed]) -> BTreeSet<&str> {
    jobs.iter().map(|claimed| claimed.job.envelope.tenant.as_str()).collect()
}

pub(crate) fn priority_goes_before_due_time(fixture: &Fixture) {
    let with = |priority| JobDraft { priority: Some(priority), ..email() };
    let low = fixture.submit(with(0));
    fixture.pass(1);
    let high = fixture.submit(with(9));
    fixture.pass(1);
    let (first, usual) = (fixture.submit(email()), JobDraft { priority: Some(4), ..email() });
    fixture.pass(1);
    let second = fixture.submit(usual);
    let claimed = fixture.claim(claim_request("w", "c", &["email"], 10));
    assert_eq!(ids(&claimed), [high, first, second, low]);
}

pub(crate) fn only_due_jobs_are_given(fixture: &Fixture) {
    let later = JobDraft { delay_seconds: Some(60), priority: Some(9), ..email() };
    let later = fixture.submit(later);
    let now = fixture.submit(email());
    assert_eq!(ids(&fixture.claim(claim_request("w", "c1", &["email"], 10))), [now]);
    fixture.pass(59);
    assert!(fixture.claim(claim_request("w", "c2", &["email"], 10)).is_empty());
    fixture.pass(1);
    assert_eq!(ids(&fixture.claim(claim_request("w", "c3", &["email"], 10))), [later]);
}

pub(crate) fn an_expired_job_does_not_block_the_line(fixture: &Fixture) {
    let soon = 1_800_000_000_000 + 5_000;
    for _ in 0..20 {
        fixture.submit(JobDraft { priority: Some(9), expires_at: Some(soon), ..email() });
    }
    let good = fixture.submit(email());
    fixture.pass(5);
    assert_eq!(ids(&fixture.claim(claim_request("w", "c", &["email"], 5))), [good]);
}

pub(crate) fn queues_are_served_in_turn(fixture: &Fixture) {
    for owner in ["acme", "birch", "cedar"] {
        fixture.submit_many(9, owner);
    }
    let six = fixture.claim(claim_request("w", "c", &["email"], 6));
    for owner in ["acme", "birch", "cedar"] {
        let got = six.iter().filter(|c| c.job.envelope.tenant.as_str() == owner).count();
        assert_eq!(got, 2, "{owner}");
    }
    let singles: Vec<Claimed> = (0..3)
        .flat_map(|n| fixture.claim(claim_request("w", &format!("s{n}"), &["email"], 1)))
        .collect();
    assert_eq!(owners(&singles).len(), 3, "turns go on from claim to claim");
}

pub(crate) fn one_job_is_not_starved_by_a_hundred_thousand(fixture: &Fixture) {
    for _ in 0..100 {
        fixture.submit_many(1_000, "acme");
    }
    fixture.submit_as(email(), "birch");
    let two = fixture.claim(claim_request("w", "c", &["email"], 2));
    assert_eq!(owners(&two).len(), 2);
    let full = fixture.claim(claim_request("w", "d", &["email"], 10));
    assert_eq!(full.len(), 10, "the type with more jobs fills up the rest");
}

pub(crate) fn workers_of_different_types_do_not_starve_a_queue(fixture: &Fixture) {
    for owner in ["acme", "birch"] {
        fixture.submit_many(20, owner);
    }
    for _ in 0..20 {
        fixture.submit(JobDraft { job_type: "scan".into(), ..email() });
    }
    let mut emails = Vec::new();
    for turn in 0..4 {
        emails.extend(fixture.claim(claim_request("w1", &format!("e{turn}"), &["email"], 1)));
        fixture.claim(claim_request("w2", &format!("s{turn}"), &["scan"], 1));
    }
    assert_eq!(owners(&emails).len(), 2, "another type's turns do not skip a queue");
}

pub(crate) fn a_claim_takes_only_its_types(fixture: &Fixture) {
    let scan = fixture.submit(JobDraft { job_type: "scan".into(), ..email() });
    fixture.submit(email());
    assert_eq!(ids(&fixture.claim(claim_request("w", "c", &["scan", "other"], 10))), [scan]);
}

pub(crate) fn claims_of_one_batch_share_no_job(fixture: &Fixture) {
    let scan = fixture.submit(JobDraft { job_type: "scan".into(), ..email() });
    let mail = fixture.submit(email());
    let claim_requests = [&["email", "scan"][..], &["email"], &["scan"], &["scan", "email"]];
    let claims = claim_requests
        .iter()
        .enumerate()
        .map(|(n, types)| claim_request(&format!("w{n}"), "c", types, 5));
    let mut got = Vec::new();
    for reply in fixture.run(claims.map(claiming).collect()) {
        let Ok(Answer::Claimed(jobs)) = reply else { panic!("{reply:?}") };
        got.extend(ids(&jobs));
    }
    got.sort();
    let mut both = [scan, mail];
    both.sort();
    assert_eq!(got, both, "each is given once");
    for id in both {
        assert_eq!((fixture.job(id).life.attempt, fixture.history(id).len()), (1, 2));
    }
}

pub(crate) fn a_repeated_claim_gets_the_same_leases(fixture: &Fixture) {
    fixture.submit_many(5, "default");
    let first = fixture.claim(claim_request("w", "c", &["email"], 3));
    fixture.pass(5);
    let again = fixture.claim(claim_request("w", "c", &["email"], 3));
    let leases = |jobs: &[Claimed]| -> BTreeSet<_> {
        jobs.iter().map(|claimed| (claimed.job.id(), token(claimed))).collect()
    };
    assert_eq!(leases(&first), leases(&again));
    assert!(again.iter().all(|claimed| claimed.job.life.attempt == 1), "no further attempt");
    assert_eq!(fixture.depth("email").counts.running, 3);
    fixture.complete(&first[0]).unwrap();
    let rest = fixture.claim(claim_request("w", "c", &["email"], 3));
    assert_eq!(leases(&rest), leases(&first[1..]), "what is still held, and no more");
    let other = fixture.claim(claim_request("v", "c", &["email"], 9));
    assert_eq!(other.len(), 2, "the name belongs to its worker");
}

pub(crate) fn a_repeated_claim_returns_only_jobs_of_its_types(fixture: &Fixture) {
    let id = fixture.submit(email());
    fixture.claim(claim_request("w", "c", &["email"], 1));
    assert!(
        fixture.claim(claim_request("w", "c", &["scan"], 1)).is_empty(),
        "it may not know of emails"
    );
    assert_eq!(ids(&fixture.claim(claim_request("w", "c", &["scan", "email"], 1))), [id]);
}

/// The store forgets the jobs of a claim after an hour, which starts anew when the name is used
/// again.
pub(crate) fn a_claim_under_an_old_name_is_remembered_from_when_it_was_given_jobs(
    fixture: &Fixture,
) {
    fixture.submit_many(3, "default");
    let first = fixture.claim(claim_request("w", "c", &["email"], 1));
    fixture.complete(&first[0]).expect("it runs");
    fixture.pass(3_599);
    let second = fixture.claim(claim_request("w", "c", &["email"], 1));
    fixture.pass(2);
    fixture.prune_leftovers(100);
    let again = fixture.claim(claim_request("w", "c", &["email"], 1));
    assert_eq!(ids(&again), ids(&second));
}

pub(crate) fn a_repeated_claim_without_leases_is_a_new_one(fixture: &Fixture) {
    assert!(fixture.claim(claim_request("w", "c", &["email"], 1)).is_empty());
    let id = fixture.submit(email());
    let claimed = fixture.claim(claim_request("w", "c", &["email"], 1));
    assert_eq!(ids(&claimed), [id]);
}

pub(crate) fn a_claim_brings_the_payload(fixture: &Fixture) {
    let payload = "{\"to\": \"ä\", \"n\": 1e2}";
    fixture.submit(JobDraft { payload: Some(payload.into()), ..email() });
    let claimed = fixture.take();
    assert_eq!(claimed.payload.as_str(), payload);
    assert_eq!(claimed.job.status(), Status::Running);
    assert_eq!(claimed.job.envelope.job_type, job_type("email"));
}

pub(crate) fn a_claim_is_never_larger_than_its_bound(fixture: &Fixture) {
    for _ in 0..2 {
        fixture.submit_many(1_000, "acme");
    }
    assert_eq!(fixture.claim(claim_request("w", "c", &["email"], usize::MAX)).len(), 1_000);
    assert!(fixture.claim(claim_request("w", "d", &["email"], 0)).is_empty());
    assert!(fixture.claim(claim_request("w", "e", &[], 10)).is_empty());
}

pub(crate) fn a_claim_gets_the_lease_length_it_requests(fixture: &Fixture) {
    fixture.submit_many(2, "acme");
    let usual = fixture.take();
    let lease = Some(Duration::from_secs(100));
    let patient =
        fixture.claim(ClaimRequest { lease, ..claim_request("w", "c", &["email"], 1) }).remove(0);
    let length = |claimed: &Claimed| {
        let lease = claimed.job.lease().unwrap();
        lease.expires_at.since(lease.started_at).as_secs()
    };
    assert_eq!((length(&usual), length(&patient)), (30, 100));
    fixture.pass(50);
    assert_eq!(fixture.sweep(), [usual.job.id()]);
}

pub(crate) fn a_claim_ends_when_its_payloads_are_large_enough(fixture: &Fixture) {
    let large = || JobDraft { payload: Some(format!("\"{}\"", "x".repeat(60_000))), ..email() };
    for _ in 0..2 {
        let jobs = (0..100).map(|_| fixture.new_job(large(), "acme")).collect();
        fixture.one(crate::Request::Submit(jobs)).unwrap();
    }
    let first = fixture.claim(claim_request("w", "c1", &["email"], 1_000));
    let bytes: usize = first.iter().map(|claimed| claimed.payload.as_str().len()).sum();
    assert!((CLAIM_BYTES_MAX..CLAIM_BYTES_MAX + 100_000).contains(&bytes), "{bytes} bytes");
    let second = fixture.claim(claim_request("w", "c2", &["email"], 1_000));
    assert_eq!(first.len() + second.len(), 200, "and no job is forgotten");
}

/// The principal is part of a claim's name: equal names from two principals are two claims.
pub(crate) fn a_claim_of_another_principal_is_another_claim(fixture: &Fixture) {
    let of = |who: &str| {
        let claim_request = claim_request("w", "c", &["email"], 1);
        ClaimRequest { claim: claim_request.claim.of_principal(who), ..claim_request }
    };
    let first = fixture.submit(email());
    let leased = fixture.claim(of("key:1"));
    assert_eq!(ids(&leased), [first]);
    assert!(fixture.claim(of("key:2")).is_empty(), "nothing of the other's");
    let second = fixture.submit(email());
    assert_eq!(ids(&fixture.claim(of("key:2"))), [second]);
    (fixture.restart)();
    for (who, id) in [("key:1", first), ("key:2", second)] {
        assert_eq!(ids(&fixture.claim(of(who))), [id], "each gets its own again");
    }
    assert_eq!(token(&fixture.claim(of("key:1"))[0]), token(&leased[0]));
}
