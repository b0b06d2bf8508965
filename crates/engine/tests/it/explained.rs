//! `explain` names the true reason.

use crate::situation::*;
use engine::*;

fn idle_facts() -> ExplainFacts {
    ExplainFacts {
        now: now(),
        pauses: Vec::new(),
        epoch: 1,
        live_workers: 1,
        last_sign: None,
        ahead: 0,
        running: 0,
        concurrency: None,
    }
}

fn paused() -> Pause {
    let job_type = JobType::parse("email").unwrap();
    Pause { job_type, scope: Scope::All, note: PauseNote::default(), at: now() }
}

#[track_caller]
fn check(job: &Job, facts: ExplainFacts, expected: &[&str]) {
    let reasons = explain(job, &facts);
    let codes: Vec<_> = reasons.iter().map(Reason::code).collect();
    assert_eq!(codes, expected);
    assert!(reasons.iter().all(|reason| !reason.detail().is_empty()));
}

#[test]
fn every_true_reason_appears() {
    let waiting = queued();
    check(&waiting, ExplainFacts { ahead: 3, ..idle_facts() }, &["BEHIND_OTHERS"]);
    check(&waiting, ExplainFacts { live_workers: 0, ..idle_facts() }, &["NO_LIVE_WORKER"]);
    check(&waiting, ExplainFacts { pauses: vec![paused()], ..idle_facts() }, &["QUEUE_PAUSED"]);
    let full = ExplainFacts { running: 2, concurrency: Some(2), ..idle_facts() };
    check(&waiting, full, &["LIMIT_REACHED"]);
    check(&queued_from(JobDraft { run_at: Some(NOW + 1), ..draft() }), idle_facts(), &["NOT_DUE"]);
    check(
        &queued_from(JobDraft { run_at: Some(NOW), ..draft() }),
        idle_facts(),
        &["LIMIT_REACHED"],
    );
    let retried = after(&running(), &settle(&running(), failed()), now());
    check(&retried, idle_facts(), &["RETRY_WAIT"]);
    check(&running(), idle_facts(), &["RUNNING"]);
    check(
        &after(&running(), &Command::Cancel, now()),
        idle_facts(),
        &["RUNNING", "CANCEL_REQUESTED"],
    );
    check(&ended(completed()), idle_facts(), &["ENDED"]);
}

#[test]
fn several_reasons_appear_together() {
    let later = queued_from(JobDraft { run_at: Some(NOW + 1), ..draft() });
    let stuck = ExplainFacts { pauses: vec![paused()], live_workers: 0, ahead: 2, ..idle_facts() };
    check(&later, stuck, &["QUEUE_PAUSED", "NO_LIVE_WORKER", "NOT_DUE", "BEHIND_OTHERS"]);
}

/// With nothing ahead and a live worker, the job is not behind others.
#[test]
fn a_job_that_is_next_waits_for_a_free_slot() {
    check(&queued(), idle_facts(), &["LIMIT_REACHED"]);
    let detail = |live_workers| Reason::WorkersBusy { live_workers }.detail();
    assert!(detail(1).starts_with("it is next; the one live worker"), "{}", detail(1));
    assert!(detail(3).starts_with("it is next; none of the 3 live workers"), "{}", detail(3));
}

#[test]
fn the_last_sign_of_life_is_named() {
    let sign = |left| LastSign {
        worker: WorkerId::parse("w1").unwrap(),
        scope: Scope::All,
        host: Host::parse("machine-1").ok(),
        at: at(-60),
        left,
    };
    let reason = |left| {
        let facts = ExplainFacts { live_workers: 0, last_sign: Some(sign(left)), ..idle_facts() };
        explain(&queued(), &facts).remove(0)
    };
    assert_eq!(
        reason(false).detail(),
        "no worker for email is live; the last, w1 on machine-1, fell silent"
    );
    assert!(reason(true).detail().ends_with("w1 on machine-1, signed off"));
    let for_tenant = reason(false).for_one_tenant().detail();
    assert!(for_tenant.ends_with("the last, w1, fell silent"), "{for_tenant}");
}

#[test]
fn a_tenant_learns_that_all_queues_are_paused_but_not_by_whom() {
    let note = PauseNote { by: Some("key:1".into()), ..PauseNote::default() };
    let reason = Reason::QueuePaused { pause: Pause { note, ..paused() } };
    assert!(reason.detail().ends_with("is paused for every tenant by key:1"), "{reason:?}");
    assert_eq!(reason.for_one_tenant(), Reason::QueuePaused { pause: paused() });
}

/// The store's status says Running, but no worker can settle the job any more.
#[test]
fn a_lease_from_before_a_restore_does_not_run() {
    let restored = ExplainFacts { epoch: 2, ..idle_facts() };
    check(&running(), restored.clone(), &["RETRY_WAIT"]);
    let job = running();
    let [Reason::LeaseVoid { worker, lease_expires_at, attempt: 1, .. }] =
        &explain(&job, &restored)[..]
    else {
        panic!("{:?}", explain(&job, &restored));
    };
    assert_eq!(
        (worker.as_str(), Some(*lease_expires_at)),
        ("w1", job.lease().map(|l| l.expires_at))
    );
    check(&after(&job, &Command::Cancel, now()), restored, &["RETRY_WAIT", "CANCEL_REQUESTED"]);
}

#[test]
fn three_missed_signs_of_life_make_a_worker_doubtful() {
    assert!(is_live(at(-29), None, now()) && !is_live(at(-30), None, now()));
    assert!(is_live(at(-600), Some(at(1)), now()), "a lease is three heartbeats long");
    assert!(!is_live(at(-600), Some(now()), now()));
}

#[test]
fn details_count_the_jobs_ahead() {
    let detail = |ahead| Reason::BehindOthers { ahead }.detail();
    assert_eq!(detail(1), "1 due job comes before it");
    assert_eq!(detail(2), "2 due jobs come before it");
}
