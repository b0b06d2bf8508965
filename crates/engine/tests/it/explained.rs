//! `explain` names the true reason.

use crate::situation::*;
use engine::*;

fn idle_facts() -> ExplainFacts {
    ExplainFacts {
        now: now(),
        pauses: Vec::new(),
        live_workers: 1,
        ahead: 0,
        running: 0,
        concurrency: None,
        live_children: 0,
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
    check(&waiting, idle_facts(), &["BEHIND_OTHERS"]);
    check(&waiting, ExplainFacts { ahead: 3, ..idle_facts() }, &["BEHIND_OTHERS"]);
    check(&waiting, ExplainFacts { live_workers: 0, ..idle_facts() }, &["NO_LIVE_WORKER"]);
    check(&waiting, ExplainFacts { pauses: vec![paused()], ..idle_facts() }, &["QUEUE_PAUSED"]);
    let full = ExplainFacts { running: 2, concurrency: Some(2), ..idle_facts() };
    check(&waiting, full, &["LIMIT_REACHED"]);
    check(&queued_from(JobDraft { run_at: Some(NOW + 1), ..draft() }), idle_facts(), &["NOT_DUE"]);
    check(
        &queued_from(JobDraft { run_at: Some(NOW), ..draft() }),
        idle_facts(),
        &["BEHIND_OTHERS"],
    );
    let retried = after(&running(), &settle(&running(), failed()), now());
    check(&retried, idle_facts(), &["RETRY_WAIT"]);
    check(&running(), idle_facts(), &["RUNNING"]);
    check(
        &after(&running(), &Command::Cancel, now()),
        idle_facts(),
        &["RUNNING", "CANCEL_REQUESTED"],
    );
    let parent = ExplainFacts { live_children: 2, ..idle_facts() };
    check(&awaiting_children(), parent, &["WAITING_FOR_CHILDREN"]);
    check(&ended(completed()), idle_facts(), &["ENDED"]);
}

#[test]
fn several_reasons_appear_together() {
    let later = queued_from(JobDraft { run_at: Some(NOW + 1), ..draft() });
    let stuck = ExplainFacts { pauses: vec![paused()], live_workers: 0, ahead: 2, ..idle_facts() };
    check(&later, stuck, &["QUEUE_PAUSED", "NO_LIVE_WORKER", "NOT_DUE", "BEHIND_OTHERS"]);
}

#[test]
fn details_count_the_jobs_ahead() {
    let detail = |ahead| Reason::BehindOthers { ahead }.detail();
    assert_eq!(detail(0), "it is next in line");
    assert_eq!(detail(1), "1 due job comes before it");
    assert_eq!(detail(2), "2 due jobs come before it");
}
