//! How jobs begin: keys, limits, times.

use crate::situation::*;
use engine::*;

#[test]
fn a_job_due_before_its_submit_overtakes_no_other() {
    let job = queued_from(JobDraft { run_at: Some(1), ..draft() });
    assert_eq!(job.run_at(), Some(at(-2_000)), "when it was submitted");
}

#[test]
fn a_key_is_free_a_window_after_the_end_and_never_before() {
    let policy = Policy::default();
    assert!(!key_is_free(&queued(), &policy, Timestamp::MAX), "never shorter than the life");
    let job = ended(completed());
    let week = 7 * 86_400;
    assert!(!key_is_free(&job, &policy, at(-5 + week - 1)));
    assert!(key_is_free(&job, &policy, at(-5 + week)));
}

#[test]
fn a_key_that_comes_again_means_the_same_job_or_is_refused() {
    let digest =
        |payload: &str| ContentDigest::of(None, &JsonText::parse("payload", payload, 100).unwrap());
    let job = running();
    let again = submit_with_taken_key(&job, &digest("{ \"to\" : \"a\" }")).unwrap();
    assert!(again.duplicate && again.job_id == job.id() && again.status == Status::Running);
    let reused = submit_with_taken_key(&job, &digest("2")).unwrap_err();
    assert_eq!(reused, Refusal::KeyReused { holder: job.id() });
}

#[test]
fn a_key_yields_where_its_job_came_to_a_dead_end_and_the_client_asks_for_a_new_one() {
    let new = |on_ended: &str| {
        JobDraft { on_ended: Some(on_ended.into()), ..draft() }.check(context()).unwrap()
    };
    let cancelled = change(&queued(), &Command::Cancel).job;
    for dead_end in [ended(poisoned()), ended(failed_for_good()), cancelled] {
        assert!(key_yields(&dead_end, &new("new")), "{:?}", dead_end.status());
        assert!(!key_yields(&dead_end, &new("duplicate")));
    }
    for job in [queued(), running(), ended(completed())] {
        assert!(!key_yields(&job, &new("new")), "{:?}", job.status());
    }
    let without_key = JobDraft { on_ended: Some("new".into()), idempotency_key: None, ..draft() };
    let refusal = without_key.check(context()).unwrap_err();
    assert_eq!(refusal.problems()[0].field, "onEnded", "{refusal}");
}

#[test]
fn a_job_cannot_expire_before_it_may_start() {
    let new = |run_at, expires_at| {
        JobDraft { run_at, expires_at: Some(expires_at), ..draft() }.check(context()).unwrap()
    };
    let policy = Policy::default();
    for (run_at, expires_at) in [(None, NOW), (Some(NOW + 5), NOW + 5), (Some(NOW + 5), NOW + 4)] {
        let refusal = submit(&new(run_at, expires_at), &policy, 0, now()).unwrap_err();
        assert_eq!(refusal.problems()[0].field, "expiresAt");
    }
    assert!(submit(&new(Some(NOW + 5), NOW + 6), &policy, 0, now()).is_ok());
}

#[test]
fn a_full_queue_takes_no_more() {
    let policy = Policy { max_queued: Some(2), ..Policy::default() };
    let new = draft().check(context()).unwrap();
    assert!(submit(&new, &policy, 1, now()).is_ok());
    assert_eq!(submit(&new, &policy, 2, now()).unwrap_err().code(), "QUEUE_FULL");
}
