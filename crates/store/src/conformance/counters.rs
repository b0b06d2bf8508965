//! Depth, age and counts of queues.

use super::fixture::{Fixture, email, ending, job_type, only, settling};
use crate::{Counts, POISON_CODES_MAX, PoisonCounts, Request};
use engine::{Command, EndingDraft, JobDraft, JobType, Outcome, Scope};
use pollster::block_on;
use std::collections::BTreeMap;

pub(crate) fn every_state_is_counted(fixture: &Fixture) {
    for word in [Outcome::Completed, Outcome::Poisoned, Outcome::Cancelled] {
        fixture.submit(email());
        fixture.settle(&fixture.take(), &ending(word)).unwrap();
    }
    fixture.submit(email());
    let for_good = EndingDraft { retryable: Some(false), ..ending(Outcome::Failed) };
    fixture.settle(&fixture.take(), &for_good).unwrap();
    fixture.submit(email());
    fixture.take();
    let erased = fixture.submit(email());
    fixture.must(erased, Command::Cancel);
    fixture.must(erased, Command::Erase);
    fixture.submit(JobDraft { delay_seconds: Some(60), ..email() });
    let expected = Counts {
        submitted: 7,
        queued: 1,
        running: 1,
        completed: 1,
        failed: 1,
        poisoned: 1,
        discarded: 0,
        cancelled: 1,
        erased: 1,
    };
    assert_eq!(fixture.depth("email").counts, expected);
}

pub(crate) fn the_store_reports_queue_depth_and_oldest_due_job(fixture: &Fixture) {
    fixture.submit(email());
    let first = fixture.job(fixture.list(engine::Filter::Everything)[0]).run_at();
    fixture.pass(5);
    fixture.submit(JobDraft { priority: Some(9), ..email() });
    fixture.submit(JobDraft { delay_seconds: Some(60), ..email() });
    let depth = fixture.depth("email");
    assert_eq!((depth.counts.queued, depth.due), (3, 2));
    assert_eq!(depth.oldest_due_at, first, "the oldest, whatever its priority");
    fixture.pass(60);
    assert_eq!(fixture.depth("email").due, 3);
}

pub(crate) fn a_discarded_job_leaves_the_poison_queue(fixture: &Fixture) {
    let id = fixture.submit(email());
    fixture.poison(&fixture.take());
    assert_eq!(fixture.depth("email").counts.poisoned, 1);
    fixture.must(id, Command::Discard);
    let counts = fixture.depth("email").counts;
    assert_eq!((counts.poisoned, counts.discarded), (0, 1));
    fixture.redrive(id);
    let counts = fixture.depth("email").counts;
    assert_eq!((counts.queued, counts.discarded), (1, 0));
}

/// Poisons one job for each of these codes, in pages.
fn poison_with(fixture: &Fixture, name: &str, owner: &str, codes: &[String]) {
    for codes in codes.chunks(500) {
        let draft = || JobDraft { job_type: name.into(), ..JobDraft::default() };
        let jobs = codes.iter().map(|_| fixture.new_job(draft(), owner)).collect();
        fixture.one(Request::Submit(jobs)).expect("the store accepts them");
        let claim = format!("c{}", crate::RandomSource::entropy(&*fixture.random).0);
        let claim_request = super::fixture::claim_request("w1", &claim, &[name], codes.len());
        let claimed_jobs = fixture.claim_as(only(owner), claim_request);
        assert_eq!(claimed_jobs.len(), codes.len());
        let settles = claimed_jobs.iter().zip(codes).map(|(claimed, code)| {
            let error_code = Some(code.clone());
            let draft = EndingDraft { error_code, ..ending(Outcome::Poisoned) };
            let (id, command) = (claimed.job.id(), settling(claimed, &draft));
            Request::Command { scope: Scope::All, id, command }
        });
        assert!(fixture.run(settles.collect()).iter().all(Result::is_ok));
    }
}

fn codes(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn poison(fixture: &Fixture, scope: &Scope, of: Option<&JobType>) -> PoisonCounts {
    block_on(fixture.store().poison_counts(scope, of)).expect("the store works")
}

type CountsByType = BTreeMap<String, Vec<(String, u64)>>;

fn counts_by_type(counts: &PoisonCounts) -> CountsByType {
    let codes = |codes: &BTreeMap<engine::ErrorCode, u64>| {
        codes.iter().map(|(code, count)| (code.to_string(), *count)).collect()
    };
    counts.counts.iter().map(|(of, counts)| (of.to_string(), codes(counts))).collect()
}

fn expected(types: &[(&str, &[(&str, u64)])]) -> CountsByType {
    let codes =
        |codes: &[(&str, u64)]| codes.iter().map(|(code, n)| ((*code).into(), *n)).collect();
    types.iter().map(|(of, counts)| ((*of).into(), codes(counts))).collect()
}

pub(crate) fn poison_is_counted_by_type_and_code(fixture: &Fixture) {
    assert_eq!(
        poison(fixture, &Scope::All, None),
        PoisonCounts { complete: true, ..Default::default() }
    );
    poison_with(fixture, "email", "acme", &codes(&["BAD", "BAD", "DOWN"]));
    poison_with(fixture, "scan", "acme", &codes(&["BAD"]));
    poison_with(fixture, "email", "birch", &codes(&["BAD", "GONE"]));
    let all = poison(fixture, &Scope::All, None);
    assert!(all.complete);
    let email: &[(&str, u64)] = &[("BAD", 3), ("DOWN", 1), ("GONE", 1)];
    assert_eq!(counts_by_type(&all), expected(&[("email", email), ("scan", &[("BAD", 1)])]));
    let acme = poison(fixture, &only("acme"), Some(&job_type("email")));
    assert_eq!(counts_by_type(&acme), expected(&[("email", &[("BAD", 2), ("DOWN", 1)])]));
    assert!(poison(fixture, &only("cedar"), None).counts.is_empty());
    // Jobs that have left the poison queue are not counted any more.
    let down = fixture.list(engine::Filter::eq(engine::Field::ErrorCode(
        engine::ErrorCode::parse("DOWN").expect("lawful"),
    )));
    fixture.must(down[0], Command::Discard);
    let bad = fixture.list(engine::Filter::eq(engine::Field::JobType(job_type("scan"))));
    fixture.redrive(bad[0]);
    let acme = poison(fixture, &only("acme"), None);
    assert_eq!(counts_by_type(&acme), expected(&[("email", &[("BAD", 2)])]));
}

pub(crate) fn the_codes_of_the_poison_queue_are_bounded(fixture: &Fixture) {
    let mut many: Vec<String> = (0..POISON_CODES_MAX).map(|n| format!("CODE_{n}")).collect();
    many.extend(codes(&["FREQUENT", "FREQUENT"]));
    poison_with(fixture, "email", "acme", &many);
    let counts = poison(fixture, &only("acme"), None);
    assert!(!counts.complete);
    let email = &counts_by_type(&counts)["email"];
    assert_eq!(email.len(), POISON_CODES_MAX);
    assert!(email.contains(&("FREQUENT".into(), 2)), "the codes with the most jobs are listed");
}

pub(crate) fn a_tenant_lists_only_its_own_queues(fixture: &Fixture) {
    let of = |name: &str| JobDraft { job_type: name.into(), ..JobDraft::default() };
    for (name, owner) in [("b", "acme"), ("a", "birch"), ("a", "acme"), ("c", "birch")] {
        fixture.submit_as(of(name), owner);
    }
    fixture.claim_as(only("acme"), super::fixture::claim_request("w1", "c", &["a"], 1));
    let queues = block_on(fixture.store().queues(&only("acme"))).expect("the store works");
    let depths: Vec<_> = queues
        .iter()
        .map(|depth| {
            let Counts { submitted, queued, running, .. } = depth.counts;
            assert_eq!(depth.queue.tenant.as_str(), "acme");
            (depth.queue.job_type.as_str(), submitted, queued, running, depth.live_workers)
        })
        .collect();
    assert_eq!(depths, [("a", 1, 0, 1, 1), ("b", 1, 1, 0, 0)]);
    let all = block_on(fixture.store().queues(&Scope::All)).expect("the store works");
    let all: Vec<_> =
        all.iter().map(|of| (of.queue.job_type.as_str(), of.queue.tenant.as_str())).collect();
    assert_eq!(all, [("a", "acme"), ("a", "birch"), ("b", "acme"), ("c", "birch")]);
}
