//! The test harness: a week of retries in milliseconds.

use engine::{Jitter, PolicyDraft, Scope, Status};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};
use worker::{Context, Fail, JobRequest, StepState, on, testing::TestHarness};

const DAY: u64 = 86_400;

fn days(days: u64) -> Duration {
    Duration::from_secs(days * DAY)
}

#[tokio::test]
async fn a_week_of_retries_takes_no_time() {
    let policy = PolicyDraft {
        max_attempts: Some(8),
        backoff_base_ms: Some(3_600_000),
        backoff_factor_hundredths: Some(300),
        backoff_max_ms: Some(2 * 86_400_000),
        jitter: Some(Jitter::None),
        ..PolicyDraft::default()
    };
    let stubborn = |_: (), _: Context| async { Err::<(), _>(Fail::retry("DOWN", "still away")) };
    let harness = TestHarness::new().with(on("report", stubborn).policy(policy));
    let job = harness.submit(JobRequest::new("report", &())).await;
    let took = harness.run_until_idle().await;
    let hours: u64 = [1, 3, 9, 27, 48, 48, 48].iter().sum();
    assert_eq!(took, Duration::from_secs(hours * 3_600), "more than a week");
    let job = harness.job(job).await;
    assert_eq!((job.status(), job.life.attempt), (Status::Poisoned, 8));
    assert_eq!(harness.history(job.id()).await.len(), 17);
}

#[tokio::test]
async fn a_handler_that_takes_too_long_is_timed_out_by_the_test_s_clock() {
    let slow = |_: (), context: Context| async move { context.sleep(days(1)).await };
    let harness = TestHarness::new().with(on("slow", slow));
    let job = harness.submit(JobRequest::new("slow", &()).max_attempts(1)).await;
    let took = harness.run_until_idle().await;
    assert_eq!(took.as_secs(), 15 * 60, "the default timeout");
    let job = harness.job(job).await;
    assert_eq!(job.status(), Status::Poisoned);
    assert_eq!(job.life.last_failure.unwrap().code.as_str(), "HANDLER_TIMEOUT");
}

#[tokio::test]
async fn a_long_handler_keeps_its_lease_by_heartbeats() {
    let slow = |_: (), context: Context| async move {
        context.sleep(Duration::from_secs(600)).await?;
        context.progress(100, "well rested");
        Ok::<_, Fail>(())
    };
    let harness = TestHarness::new().with(on("slow", slow));
    let job = harness.submit(JobRequest::new("slow", &())).await;
    harness.run_due().await;
    assert_eq!(harness.statuses(job).await, [Status::Queued, Status::Running, Status::Completed]);
    assert_eq!(harness.job(job).await.life.progress.unwrap().report.percent, 100);
}

#[tokio::test]
async fn a_running_handler_wakes_when_its_job_is_cancelled() {
    let harness = TestHarness::new();
    let operator = harness.platform().clone();
    let slow = move |_: (), context: Context| {
        let operator = operator.clone();
        async move {
            operator.cancel(&Scope::All, context.job_id(), None).await?;
            context.sleep(days(1)).await
        }
    };
    let harness = harness.with(on("slow", slow));
    let job = harness.submit(JobRequest::new("slow", &())).await;
    harness.run_until_idle().await;
    assert_eq!(harness.job(job).await.status(), Status::Cancelled);
    assert!(harness.elapsed() < days(1), "it woke up early");
}

#[tokio::test]
async fn a_step_is_done_once() {
    let charged = Arc::new(AtomicU32::new(0));
    let count = charged.clone();
    let checkout = move |_: (), context: Context| {
        let count = count.clone();
        async move {
            let receipt: String = context
                .step("charge", |state| async move {
                    assert_eq!(state, StepState::New);
                    Ok(format!("receipt {}", count.fetch_add(1, Ordering::SeqCst) + 1))
                })
                .await?;
            if context.attempt() < 3 {
                return Err(Fail::retry("SMTP_DOWN", "no mail today"));
            }
            Ok(receipt)
        }
    };
    let harness = TestHarness::new().with(on("checkout", checkout));
    let job = harness.submit(JobRequest::new("checkout", &())).await;
    harness.run_until_idle().await;
    assert_eq!(harness.job(job).await.life.result.unwrap().as_str(), r#""receipt 1""#);
    assert_eq!(charged.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_job_that_is_too_late_is_cancelled_by_the_sweep() {
    let fine = |_: (), _: Context| async { Ok::<_, Fail>(()) };
    let harness = TestHarness::new().with(on("fine", fine));
    let expires_at = 1_767_225_600_000 + 60_000;
    let job = harness.submit(JobRequest::new("fine", &()).expires_at_unix_ms(expires_at)).await;
    harness.advance(Duration::from_secs(61)).await;
    assert_eq!(harness.job(job).await.status(), Status::Cancelled);
    assert_eq!(harness.run_due().await, 0);
}

#[tokio::test]
async fn a_snooze_and_a_child_go_by_the_same_clock() {
    let tried = AtomicBool::new(false);
    let parent = move |_: (), context: Context| {
        let first = !tried.swap(true, Ordering::SeqCst);
        async move {
            if first {
                return Err(Fail::snooze(days(1)));
            }
            let child = JobRequest::new("child", &()).delay(days(2));
            Ok(context.submit_child(child).await?.to_string())
        }
    };
    let child = |_: (), _: Context| async { Ok::<_, Fail>(()) };
    let harness = TestHarness::new().with(on("parent", parent)).with(on("child", child));
    let job = harness.submit(JobRequest::new("parent", &())).await;
    assert_eq!(harness.run_until_idle().await, days(3));
    assert_eq!(harness.job(job).await.life.attempt, 1, "a snooze costs none");
}

#[tokio::test]
#[should_panic(expected = "use Context::sleep")]
async fn the_harness_panics_on_a_handler_that_waits_for_nothing() {
    tokio::time::pause(); // so that the test does not really wait
    let hangs = |_: (), _: Context| async { std::future::pending::<Result<(), Fail>>().await };
    let harness = TestHarness::new().with(on("hangs", hangs));
    harness.submit(JobRequest::new("hangs", &())).await;
    harness.run_due().await;
}

/// Submits `count` pages, waits for them, and returns how many completed.
async fn book(count: u32, context: Context) -> Result<usize, Fail> {
    for page in 0..count {
        context.submit_child(JobRequest::new("page", &page)).await?;
    }
    let pages = context.wait_for_children().await?;
    let completed: Vec<u32> = pages
        .iter()
        .filter(|page| page.is_completed())
        .map(|page| page.result())
        .collect::<Result<_, _>>()?;
    assert!(completed.is_sorted(), "the oldest child comes first");
    Ok(completed.len())
}

async fn page(number: u32, _: Context) -> Result<u32, Fail> {
    if number == 3 { Err(Fail::for_good("BLANK", "nothing is on it")) } else { Ok(number) }
}

#[tokio::test]
async fn a_parent_waits_for_its_children_and_judges_their_outcomes() {
    let harness = TestHarness::new().with(on("book", book)).with(on("page", page));
    let job = harness.submit(JobRequest::new("book", &30_u32)).await;
    harness.run_until_idle().await;
    let job = harness.job(job).await;
    assert_eq!(job.status(), Status::Completed, "a failed child is not its failure");
    assert_eq!(job.life.result.as_ref().unwrap().as_str(), "29");
    assert_eq!((job.life.attempt, job.life.releases), (1, 0), "waiting costs no attempt");
}

#[tokio::test]
async fn a_parent_without_children_does_not_wait() {
    let harness = TestHarness::new().with(on("book", book));
    let job = harness.submit(JobRequest::new("book", &0_u32)).await;
    harness.run_until_idle().await;
    let job = harness.job(job).await;
    assert_eq!((job.status(), job.life.releases), (Status::Completed, 0));
}
