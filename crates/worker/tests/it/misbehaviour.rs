//! Handlers that panic, hang, block and ignore signals: each ends as the contract says, and all
//! slots of the runner work afterwards.

use crate::fixture::{Fixture, check_full_strength, short_policy};
use engine::{PolicyDraft, Scope, Status};
use std::{thread, time::Duration};
use worker::{Context, Fail, JobRequest, on};

/// A handler that does what its payload says.
async fn behave(behaviour: String, context: Context) -> Result<(), Fail> {
    match behaviour.as_str() {
        "panics" => panic!("as asked"),
        "hangs" => std::future::pending().await,
        "blocks a while" => thread::sleep(Duration::from_millis(1_500)),
        "blocks for ever" => loop {
            thread::sleep(Duration::from_secs(3_600));
        },
        "ignores a cancel" => tokio::time::sleep(Duration::from_secs(3_600)).await,
        "panics when dropped" => {
            struct Bomb;
            impl Drop for Bomb {
                fn drop(&mut self) {
                    panic!("in the middle of being dropped");
                }
            }
            let _bomb = Bomb;
            std::future::pending::<()>().await;
        }
        _ => {}
    }
    let _ = context;
    Ok(())
}

async fn fixture() -> Fixture {
    let fixture = Fixture::open();
    fixture.set_policy("any", short_policy()).await;
    fixture
}

#[tokio::test]
async fn a_panic_is_a_failure_like_any_other() {
    let fixture = fixture().await;
    let runner = fixture.runner().with(on("any", behave).slots(2)).start().await.unwrap();
    let id = fixture.submit(JobRequest::new("any", &"panics")).await;
    let job = fixture.wait_for(id, Status::Poisoned).await;
    let history = fixture.history_lines(id).await;
    assert_eq!(
        history,
        ["Queued", "Running", "Queued HANDLER_PANICKED", "Running", "Poisoned HANDLER_PANICKED"]
    );
    let message = job.life.last_failure.unwrap().message.unwrap();
    assert_eq!(&*message, "the handler panicked: as asked");
    check_full_strength(&fixture, &runner, "any").await;
    runner.stop(Duration::from_secs(5)).await;
}

/// The closure itself panics, before there is a future to poll.
#[tokio::test]
async fn a_panic_before_the_first_poll_is_a_failure_as_well() {
    let fixture = fixture().await;
    let refuse = |behaviour: String, _: Context| {
        assert_ne!(behaviour, "panics", "as asked");
        async { Ok::<_, Fail>(()) }
    };
    let runner = fixture.runner().with(on("any", refuse).slots(2)).start().await.unwrap();
    let id = fixture.submit(JobRequest::new("any", &"panics")).await;
    let job = fixture.wait_for(id, Status::Poisoned).await;
    assert_eq!(job.life.last_failure.unwrap().code.as_str(), "HANDLER_PANICKED");
    check_full_strength(&fixture, &runner, "any").await;
    runner.stop(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_handler_that_hangs_is_cut_off_at_its_timeout() {
    let fixture = fixture().await;
    let runner = fixture.runner().with(on("any", behave).slots(2)).start().await.unwrap();
    for behaviour in ["hangs", "panics when dropped"] {
        let id = fixture.submit(JobRequest::new("any", &behaviour)).await;
        fixture.wait_for(id, Status::Poisoned).await;
        let history = fixture.history_lines(id).await;
        assert_eq!(
            history,
            ["Queued", "Running", "Queued HANDLER_TIMEOUT", "Running", "Poisoned HANDLER_TIMEOUT"]
        );
    }
    check_full_strength(&fixture, &runner, "any").await;
    runner.stop(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_blocking_handler_does_not_stop_other_jobs() {
    let fixture = fixture().await;
    let runner = fixture.runner().with(on("any", behave).slots(8)).start().await.unwrap();
    let mut stuck = Vec::new();
    // More than the machine has cores, and more than the threads that the pool begins with.
    for _ in 0..6 {
        stuck.push(fixture.submit(JobRequest::new("any", &"blocks for ever")).await);
    }
    for id in &stuck {
        fixture.wait_for(*id, Status::Running).await;
    }
    let others = fixture.submit(JobRequest::new("any", &"fine")).await;
    fixture.wait_for(others, Status::Completed).await;
    for id in stuck {
        let job = fixture.wait_for(id, Status::Poisoned).await;
        assert_eq!(job.life.last_failure.unwrap().code.as_str(), "HANDLER_TIMEOUT");
        assert_eq!(job.life.losses, 0, "its worker was alive all the time");
    }
    assert!(runner.stats().stuck_threads >= 12, "two attempts each, and a thread cannot be ended");
    check_full_strength(&fixture, &runner, "any").await;
    let stopped = runner.stop(Duration::from_secs(5)).await;
    assert_eq!((stopped.released, stopped.unreported), (0, 0));
}

#[tokio::test]
async fn a_handler_that_blocks_longer_than_its_lease_keeps_it() {
    let fixture = fixture().await;
    let policy = PolicyDraft { timeout_ms: Some(60_000), ..short_policy() };
    fixture.set_policy("any", policy).await;
    let runner = fixture.runner().with(on("any", behave).slots(4)).start().await.unwrap();
    let mut jobs = Vec::new();
    for _ in 0..4 {
        jobs.push(fixture.submit(JobRequest::new("any", &"blocks a while")).await);
    }
    for id in jobs {
        let job = fixture.wait_for(id, Status::Completed).await;
        assert_eq!(job.life.attempt, 1, "heartbeats went on");
    }
    check_full_strength(&fixture, &runner, "any").await;
    runner.stop(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_handler_that_ignores_a_cancel_is_cut_off_and_its_job_cancelled() {
    let fixture = fixture().await;
    let runner = fixture.runner().with(on("any", behave).slots(2)).start().await.unwrap();
    let id = fixture.submit(JobRequest::new("any", &"ignores a cancel")).await;
    fixture.wait_for(id, Status::Running).await;
    fixture.node.cancel(&Scope::All, id, None).await.unwrap();
    let job = fixture.wait_for(id, Status::Cancelled).await;
    assert_eq!(job.life.attempt, 1, "it is not tried again");
    assert_eq!(
        fixture.history_lines(id).await,
        ["Queued", "Running", "Running", "Cancelled HANDLER_TIMEOUT"]
    );
    check_full_strength(&fixture, &runner, "any").await;
    runner.stop(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_payload_that_does_not_fit_is_poison() {
    let fixture = fixture().await;
    let runner = fixture.runner().with(on("any", behave)).start().await.unwrap();
    let id = fixture.submit(JobRequest::new("any", &[1, 2, 3])).await;
    let job = fixture.wait_for(id, Status::Poisoned).await;
    assert_eq!(job.life.attempt, 1, "another try would read the same");
    assert_eq!(job.life.last_failure.unwrap().code.as_str(), "PAYLOAD_UNREADABLE");
    runner.stop(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn after_a_storm_of_everything_the_runner_is_at_full_strength() {
    let fixture = fixture().await;
    let runner = fixture.runner().with(on("any", behave).slots(20)).start().await.unwrap();
    let behaviours = ["panics", "hangs", "fine", "blocks a while", "panics when dropped", "fine"];
    let mut jobs = Vec::new();
    for number in 0..120 {
        jobs.push(
            fixture.submit(JobRequest::new("any", &behaviours[number % behaviours.len()])).await,
        );
    }
    for id in jobs {
        crate::fixture::eventually("every job ends", async || {
            fixture.job(id).await.status().is_ended()
        })
        .await;
    }
    check_full_strength(&fixture, &runner, "any").await;
    crate::fixture::eventually("no thread is lost", async || runner.stats().stuck_threads == 0)
        .await;
    runner.stop(Duration::from_secs(5)).await;
}
