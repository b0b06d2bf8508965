//! What can go wrong around a runner: stores that fail in part, runtimes that end first, endless
//! handlers.

use crate::fixture::{Fixture, eventually, memory, short_policy};
use engine::{Command, JobId, JobType, PolicyDraft, Scope, Status};
use platform::{SystemClock, SystemRandom};
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use store::{Memory, Request, StoreError};
use tokio::sync::Notify;
use worker::{Context, Fail, JobRequest, StopReason, on};

/// Two nodes that share a store, and the first node's access to the store.
fn two_nodes() -> (Fixture, Arc<Memory>, Fixture) {
    let memory = Memory::shared(Arc::new(SystemClock::new()), Arc::new(SystemRandom));
    let near_store = Arc::new(memory.another());
    (Fixture::over(near_store.clone()), near_store, Fixture::over(Arc::new(memory)))
}

async fn count_by_status(fixture: &Fixture, jobs: &[JobId]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for id in jobs {
        *counts.entry(fixture.job(*id).await.status().to_string()).or_default() += 1;
    }
    counts
}

/// No client cancelled the job: when the runner stops, a job whose handler sleeps is given back.
#[tokio::test]
async fn stopping_cancels_no_job() {
    let fixture = Fixture::open();
    let nap =
        |_: (), context: Context| async move { context.sleep(Duration::from_secs(3600)).await };
    let runner = fixture.runner().with(on("nap", nap).slots(500)).start().await.unwrap();
    let mut jobs = Vec::new();
    for _ in 0..500 {
        jobs.push(fixture.submit(JobRequest::new("nap", &())).await);
    }
    eventually("all run", async || runner.stats().running == 500).await;
    runner.stop(Duration::from_secs(2)).await;
    assert_eq!(
        count_by_status(&fixture, &jobs).await,
        BTreeMap::from([("Queued".to_owned(), 500)])
    );
}

#[tokio::test]
async fn a_timeout_cancels_no_job() {
    let fixture = Fixture::open();
    fixture
        .set_policy(
            "nap",
            PolicyDraft { backoff_base_ms: Some(600_000), max_attempts: Some(5), ..short_policy() },
        )
        .await;
    let nap =
        |_: (), context: Context| async move { context.sleep(Duration::from_secs(3600)).await };
    let runner = fixture.runner().with(on("nap", nap).slots(500)).start().await.unwrap();
    let mut jobs = Vec::new();
    for _ in 0..500 {
        jobs.push(fixture.submit(JobRequest::new("nap", &())).await);
    }
    tokio::time::sleep(Duration::from_secs(4)).await;
    let counts = count_by_status(&fixture, &jobs).await;
    assert_eq!(counts.get("Cancelled"), None, "{counts:?}");
    runner.stop(Duration::from_secs(2)).await;
}

/// One row of the store is damaged: reports on other jobs are still taken.
#[tokio::test]
async fn a_damaged_job_does_not_stop_the_runner() {
    let (fixture, faults) = Fixture::with_faults(memory());
    let nap =
        |_: (), context: Context| async move { context.sleep(Duration::from_millis(500)).await };
    let runner = fixture.runner().with(on("nap", nap).slots(4)).start().await.unwrap();
    let broken = fixture.submit(JobRequest::new("nap", &())).await;
    fixture.wait_for(broken, Status::Running).await;
    faults.inject(move |batch| {
        let hit = batch.iter().any(|r| matches!(r, Request::Command { id, .. } if *id == broken));
        hit.then(|| (false, StoreError::Damaged(None)))
    });
    let mut jobs = Vec::new();
    for _ in 0..30 {
        jobs.push(fixture.submit(JobRequest::new("nap", &())).await);
    }
    tokio::time::sleep(Duration::from_secs(8)).await;
    let counts = count_by_status(&fixture, &jobs).await;
    let stats = runner.stats();
    runner.stop(Duration::from_secs(1)).await;
    assert_eq!(counts.get("Completed"), Some(&30), "{counts:?} {stats:?}");
}

/// One overdue row is damaged: scheduled jobs still start, and other leases expire.
#[tokio::test]
async fn a_damaged_job_does_not_stop_the_clockwork() {
    let (fixture, faults) = Fixture::with_faults(memory());
    fixture.set_policy("gone", short_policy()).await;
    let claim_request = engine::ClaimRequest {
        worker: engine::WorkerId::parse("w").unwrap(),
        host: None,
        claim: engine::ClaimId::parse("c").unwrap(),
        job_types: vec![JobType::parse("gone").unwrap()],
        max: 2,
        lease: None,
    };
    let broken = fixture.submit(JobRequest::new("gone", &())).await;
    let other = fixture.submit(JobRequest::new("gone", &())).await;
    faults.inject(move |batch| {
        let hit = batch.iter().any(|r| matches!(r, Request::Command { id, command: Command::Timeout | Command::LeaseExpiry, .. } if *id == broken));
        hit.then(|| (false, StoreError::Damaged(None)))
    });
    assert_eq!(fixture.node.claim(&Scope::All, claim_request).await.unwrap().len(), 2);
    let fine = |_: (), _: Context| async { Ok::<_, Fail>(()) };
    let runner = fixture.runner().with(on("later", fine)).start().await.unwrap();
    let later = fixture.submit(JobRequest::new("later", &()).delay(Duration::from_secs(3))).await;
    tokio::time::sleep(Duration::from_secs(7)).await;
    let (later, other) = (fixture.job(later).await.status(), fixture.job(other).await.status());
    runner.stop(Duration::from_secs(1)).await;
    assert_eq!((later, other), (Status::Completed, Status::Queued));
}

/// A claim with unknown outcome, then a store that is away for a moment: it costs the job no
/// attempt.
#[tokio::test]
async fn an_unknown_claim_is_repeated_though_the_store_was_away_in_between() {
    let (fixture, faults) = Fixture::with_faults(memory());
    fixture.set_policy("a", PolicyDraft { timeout_ms: None, ..short_policy() }).await;
    let fine = |_: (), _: Context| async { Ok::<_, Fail>(()) };
    let id = fixture.submit(JobRequest::new("a", &())).await;
    let count = AtomicUsize::new(0);
    faults.inject(move |batch| {
        let hit = batch.iter().any(|r| matches!(r, Request::Claim { .. }));
        if !hit {
            return None;
        }
        match count.fetch_add(1, Ordering::SeqCst) {
            0 => Some((true, StoreError::OutcomeUnknown(None))),
            1 => Some((false, StoreError::Unavailable(None))),
            _ => None,
        }
    });
    let runner = fixture.runner().with(on("a", fine)).start().await.unwrap();
    let job = fixture.wait_for(id, Status::Completed).await;
    runner.stop(Duration::from_secs(1)).await;
    assert_eq!(job.life.attempt, 1, "{:?}", fixture.history_lines(id).await);
}

#[test]
fn a_runner_without_a_runtime_can_be_stopped() {
    let fixture = Fixture::open();
    let fine = |_: (), _: Context| async { Ok::<_, Fail>(()) };
    let runner = crate::runner::futures_less(fixture.runner().with(on("a", fine)).start()).unwrap();
    crate::runner::futures_less(runner.stop(Duration::from_secs(1)));
}

#[tokio::test]
async fn dropping_the_stop_future_skips_the_grace_time() {
    let fixture = Fixture::open();
    let nap =
        |_: (), context: Context| async move { context.sleep(Duration::from_secs(3600)).await };
    let runner = fixture.runner().with(on("nap", nap)).start().await.unwrap();
    let id = fixture.submit(JobRequest::new("nap", &())).await;
    fixture.wait_for(id, Status::Running).await;
    let started = tokio::time::Instant::now();
    drop(
        tokio::time::timeout(Duration::from_millis(100), runner.stop(Duration::from_secs(10)))
            .await,
    );
    let took = started.elapsed();
    assert!(took < Duration::from_secs(2), "{took:?}");
}

#[tokio::test]
async fn a_handler_cancelling_its_token_does_not_cancel_its_job() {
    let fixture = Fixture::open();
    let cancels = |_: (), context: Context| async move {
        context.cancellation_token().cancel(); // as a library does with its token when it is done
        context.sleep(Duration::from_millis(1)).await?;
        Ok::<_, Fail>(())
    };
    let runner = fixture.runner().with(on("a", cancels)).start().await.unwrap();
    let id = fixture.submit(JobRequest::new("a", &())).await;
    eventually("ended", async || fixture.job(id).await.status().is_ended()).await;
    assert_eq!(fixture.job(id).await.status(), Status::Completed);
    runner.stop(Duration::from_secs(1)).await;
}

/// A handler that ignores both the cancel and the loss of its lease is cut off after the grace
/// time.
#[tokio::test]
async fn a_lost_and_cancelled_handler_is_cut_off() {
    let store = memory();
    let ((fixture, faults), other) = (Fixture::with_faults(store.clone()), Fixture::over(store));
    other.set_policy("a", PolicyDraft { timeout_ms: Some(3_600_000), ..short_policy() }).await;
    let deaf = |_: (), _: Context| async { std::future::pending::<Result<(), Fail>>().await };
    let runner = fixture.runner().with(on("a", deaf)).start().await.unwrap();
    let id = fixture.submit(JobRequest::new("a", &())).await;
    fixture.wait_for(id, Status::Running).await;
    other.node.cancel(&Scope::All, id, None).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await; // the cancel reaches the handler
    faults.inject(|batch| {
        let hit = batch
            .iter()
            .any(|r| matches!(r, Request::Command { command: Command::Heartbeat { .. }, .. }));
        hit.then(|| (false, StoreError::Unavailable(None)))
    });
    other.wait_for(id, Status::Cancelled).await; // its lease is over
    faults.inject(|_| None);
    tokio::time::sleep(Duration::from_secs(12)).await;
    let stats = runner.stats();
    runner.stop(Duration::from_secs(1)).await;
    assert_eq!(stats.running, 0, "{stats:?}");
}

/// The user's runtime ends before the runner.
#[test]
fn jobs_are_not_burnt_when_the_runtime_is_gone() {
    let fixture = Fixture::open();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let sleeps = |_: (), _: Context| async {
        tokio::time::sleep(Duration::from_millis(1)).await;
        Ok::<_, Fail>(())
    };
    let runner = runtime
        .block_on(fixture.runner().with(on("a", sleeps).policy(short_policy())).start())
        .unwrap();
    drop(runtime);
    let id = crate::runner::futures_less(fixture.submit(JobRequest::new("a", &())));
    std::thread::sleep(Duration::from_secs(3));
    let job = crate::runner::futures_less(fixture.job(id));
    drop(runner);
    assert_ne!(job.status(), Status::Poisoned, "{:?}", job.life.last_failure);
}

#[tokio::test]
async fn a_wait_without_end_is_no_wait_at_all() {
    let fixture = Fixture::open();
    let never =
        |_: (), _: Context| async { Err::<(), _>(Fail::retry("X", "x").after(Duration::MAX)) };
    let runner = fixture.runner().with(on("a", never)).start().await.unwrap();
    let id = fixture.submit(JobRequest::new("a", &())).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let job = fixture.job(id).await;
    let stats = runner.stats();
    runner.stop(Duration::from_secs(1)).await;
    assert_eq!((job.status(), stats.running), (Status::Queued, 0), "{stats:?}");
}

#[tokio::test]
async fn a_grace_without_end() {
    let fixture = Fixture::open();
    let fine = |_: (), _: Context| async { Ok::<_, Fail>(()) };
    let runner = fixture.runner().with(on("a", fine)).start().await.unwrap();
    runner.stop(Duration::MAX).await;
}

/// A child whose payload differs in the second attempt.
#[tokio::test]
async fn children_that_differ() {
    let fixture = Fixture::open();
    fixture.set_policy("parent", short_policy()).await;
    let parent = |_: (), context: Context| async move {
        context
            .submit_child(JobRequest::new(
                "child",
                &format!("made at attempt {}", context.attempt()),
            ))
            .await?;
        if context.attempt() == 1 { Err(Fail::retry("LATER", "x")) } else { Ok(()) }
    };
    let runner = fixture.runner().with(on("parent", parent)).start().await.unwrap();
    let id = fixture.submit(JobRequest::new("parent", &())).await;
    eventually("ended", async || fixture.job(id).await.status().is_ended()).await;
    let job = fixture.job(id).await;
    runner.stop(Duration::from_secs(1)).await;
    assert_eq!(job.status(), Status::Poisoned);
    let failure = job.life.last_failure.unwrap();
    assert_eq!(failure.code.as_str(), "IDEMPOTENCY_KEY_REUSED");
    let message = failure.message.unwrap();
    assert!(message.contains("give each a key of its own"), "{message}");
}

/// In the test harness: a handler that sleeps in a task that it has spawned.
#[tokio::test]
async fn a_task_of_the_handler_sleeps_by_the_clock_of_the_test() {
    let spawns = |_: (), context: Context| async move {
        let clone = context.clone();
        tokio::spawn(async move { clone.sleep(Duration::from_secs(3600)).await }).await?
    };
    let harness = worker::testing::TestHarness::new().with(
        on("a", spawns)
            .policy(PolicyDraft { timeout_ms: Some(7_200_000), ..PolicyDraft::default() }),
    );
    let id = harness.submit(JobRequest::new("a", &())).await;
    harness.run_due().await;
    assert_eq!(harness.job(id).await.status(), Status::Completed);
}

/// A handler that blocks for ever must not keep the store open after everything was stopped.
#[tokio::test]
async fn a_blocked_handler_does_not_keep_the_store_open() {
    let store = memory();
    let fixture = Fixture::over(store.clone());
    let deaf = |_: (), _context: Context| async {
        std::thread::sleep(Duration::from_secs(3_600));
        Ok::<_, Fail>(())
    };
    let runner = fixture.runner().with(on("a", deaf)).start().await.unwrap();
    let id = fixture.submit(JobRequest::new("a", &())).await;
    fixture.wait_for(id, Status::Running).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    runner.stop(Duration::from_secs(1)).await;
    fixture.node.close();
    drop(fixture);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(Arc::strong_count(&store), 1);
}

/// Handlers that block for a moment, as drivers do that are not async.
#[tokio::test]
async fn slots_are_slots_for_handlers_that_block() {
    let fixture = Fixture::open();
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (running, peak) = (now.clone(), most.clone());
    let blocks = move |_: (), _: Context| {
        let (running, peak) = (running.clone(), peak.clone());
        async move {
            peak.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(500));
            running.fetch_sub(1, Ordering::SeqCst);
            Ok::<_, Fail>(())
        }
    };
    let mut jobs = Vec::new();
    for _ in 0..60 {
        jobs.push(fixture.submit(JobRequest::new("a", &())).await);
    }
    let runner = fixture.runner().with(on("a", blocks).slots(30)).start().await.unwrap();
    for id in jobs {
        fixture.wait_for(id, Status::Completed).await;
    }
    assert!(most.load(Ordering::SeqCst) > 20, "{most:?} of 30 at once");
    runner.stop(Duration::from_secs(1)).await;
}

/// Only this node has lost the store: another worker takes the job when its lease is over.
#[tokio::test]
async fn a_handler_on_a_node_without_its_store_learns_that_its_lease_has_run_out() {
    let (near, near_store, far) = two_nodes();
    near.set_policy("a", PolicyDraft { timeout_ms: None, ..short_policy() }).await;
    let first = |_: (), context: Context| async move {
        assert_eq!(context.stop_requested().await, StopReason::LeaseLost);
        Err::<(), _>(Fail::cancelled())
    };
    let cut_off_runner = near.runner().with(on("a", first)).start().await.unwrap();
    let id = near.submit(JobRequest::new("a", &())).await;
    eventually("it runs", async || cut_off_runner.stats().running == 1).await;
    near_store.cut_off(true);
    eventually("its handler has stopped", async || cut_off_runner.stats().running == 0).await;
    let second = |_: (), _: Context| async { Ok::<_, Fail>("of the second") };
    let other = far.runner().with(on("a", second)).start().await.unwrap();
    let job = far.wait_for(id, Status::Completed).await;
    assert_eq!(job.life.result.unwrap().as_str(), r#""of the second""#);
    near_store.cut_off(false);
    eventually("the first has reported", async || cut_off_runner.stats().unreported == 0).await;
    assert_eq!(cut_off_runner.stats().refused_reports, 1);
    cut_off_runner.stop(Duration::from_secs(2)).await;
    other.stop(Duration::from_secs(2)).await;
}

#[tokio::test]
async fn a_handler_that_ends_while_its_node_has_lost_the_store_is_reported_afterwards() {
    let (near, near_store, far) = two_nodes();
    let go = Arc::new(Notify::new());
    let waits = {
        let go = go.clone();
        move |_: (), _: Context| {
            let go = go.clone();
            async move {
                go.notified().await;
                Ok::<_, Fail>("done all the same")
            }
        }
    };
    let runner = near.runner().with(on("a", waits)).start().await.unwrap();
    let id = far.submit(JobRequest::new("a", &())).await;
    eventually("it runs", async || runner.stats().running == 1).await;
    near_store.cut_off(true);
    go.notify_one();
    eventually("it has ended", async || runner.stats().unreported == 1).await;
    assert_eq!(far.job(id).await.status(), Status::Running);
    near_store.cut_off(false);
    let job = far.wait_for(id, Status::Completed).await;
    assert_eq!((job.life.attempt, job.life.losses), (1, 0));
    runner.stop(Duration::from_secs(2)).await;
}
