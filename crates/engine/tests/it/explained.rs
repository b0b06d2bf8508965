//! `explain` names the true reason.

use crate::situation::*;
use engine::*;

fn around() -> ExplainFacts {
    ExplainFacts {
        now: now(),
        paused: false,
        live_workers: 1,
        ahead: 0,
        running: 0,
        concurrency: None,
    }
}

#[track_caller]
fn check(job: &Job, around: ExplainFacts, expected: &[&str]) {
    let reasons = explain(job, &around);
    let codes: Vec<_> = reasons.iter().map(Reason::code).collect();
    assert_eq!(codes, expected);
    assert!(reasons.iter().all(|reason| !reason.detail().is_empty()));
}

#[test]
fn every_true_reason_appears() {
    let waiting = queued();
    check(&waiting, around(), &["BEHIND_OTHERS"]);
    check(&waiting, ExplainFacts { ahead: 3, ..around() }, &["BEHIND_OTHERS"]);
    check(&waiting, ExplainFacts { live_workers: 0, ..around() }, &["NO_LIVE_WORKER"]);
    check(&waiting, ExplainFacts { paused: true, ..around() }, &["QUEUE_PAUSED"]);
    let full = ExplainFacts { running: 2, concurrency: Some(2), ..around() };
    check(&waiting, full, &["LIMIT_REACHED"]);
    check(&queued_from(JobDraft { run_at: Some(NOW + 1), ..draft() }), around(), &["NOT_DUE"]);
    check(&queued_from(JobDraft { run_at: Some(NOW), ..draft() }), around(), &["BEHIND_OTHERS"]);
    let retried = after(&running(), &settle(&running(), failed()), now());
    check(&retried, around(), &["RETRY_WAIT"]);
    check(&running(), around(), &["RUNNING"]);
    check(&after(&running(), &Command::Cancel, now()), around(), &["RUNNING", "CANCEL_REQUESTED"]);
    check(&ended(completed()), around(), &["ENDED"]);
}

#[test]
fn several_reasons_appear_together() {
    let later = queued_from(JobDraft { run_at: Some(NOW + 1), ..draft() });
    let stuck = ExplainFacts { paused: true, live_workers: 0, ahead: 2, ..around() };
    check(&later, stuck, &["QUEUE_PAUSED", "NO_LIVE_WORKER", "NOT_DUE", "BEHIND_OTHERS"]);
}
