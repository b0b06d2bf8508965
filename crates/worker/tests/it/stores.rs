//! Stores that go away, and workers that report too late.

use crate::fixture::{Fixture, check_full_strength, eventually, memory, short_policy};
use engine::{Status, WorkerId};
use std::{
    sync::{Arc, RwLock, mpsc},
    thread,
    time::Duration,
};
use store::FaultInjector;
use worker::{Context, Fail, JobRequest, on};

#[tokio::test]
async fn a_worker_survives_a_store_outage_and_runs_no_job_twice() {
    let (fixture, faults) = Fixture::with_faults(memory());
    let nap = |_: String, context: Context| async move {
        context.sleep(Duration::from_millis(300)).await?;
        context.step("late", |_| async { Ok(()) }).await
    };
    let runner = fixture.runner().with(on("nap", nap).slots(4)).start().await.unwrap();
    let mut jobs = Vec::new();
    for _ in 0..12 {
        jobs.push(fixture.submit(JobRequest::new("nap", &"fine")).await);
    }
    fixture.wait_for(jobs[0], Status::Running).await;
    faults.refuse_all(true);
    // the handlers end, and the store refuses their reports
    tokio::time::sleep(Duration::from_secs(1)).await;
    faults.refuse_all(false);
    for id in jobs {
        let job = fixture.wait_for(id, Status::Completed).await;
        assert_eq!(job.life.attempt, 1, "the handler ran once, and its report was kept");
    }
    check_full_strength(&fixture, &runner, "nap").await;
    runner.stop(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_runner_stops_in_time_though_its_store_is_dead() {
    let (fixture, faults) = Fixture::with_faults(memory());
    let fine =
        |_: (), context: Context| async move { context.sleep(Duration::from_millis(200)).await };
    let runner = fixture.runner().with(on("a", fine)).start().await.unwrap();
    let id = fixture.submit(JobRequest::new("a", &())).await;
    fixture.wait_for(id, Status::Running).await;
    faults.refuse_all(true);
    let stopping = runner.stop(Duration::from_secs(1));
    let stopped = tokio::time::timeout(Duration::from_secs(30), stopping).await.unwrap();
    assert_eq!(stopped.unreported, 1, "and it says what it could not tell");
}

/// A worker that cannot reach the store for longer than its lease, as if its process had been
/// stopped. Another worker takes its job; the first one's report changes nothing.
#[tokio::test]
async fn the_late_report_of_a_paused_worker_is_refused() {
    let store = memory();
    let ((paused, faults), other) = (Fixture::with_faults(store.clone()), Fixture::over(store));
    other.set_policy("a", engine::PolicyDraft { timeout_ms: Some(60_000), ..short_policy() }).await;
    let first = |_: (), context: Context| async move {
        context.sleep(Duration::from_secs(2)).await?; // longer than the lease
        Ok::<_, Fail>("of the first")
    };
    let second = |_: (), _: Context| async { Ok::<_, Fail>("of the second") };
    let paused_runner = paused.runner().name("paused").with(on("a", first)).start().await.unwrap();
    let id = other.submit(JobRequest::new("a", &())).await;
    // Its own node got no notification: the maintenance loop finds jobs that other nodes submitted.
    paused.wait_for(id, Status::Running).await;

    let gate = Gate::shut(&faults);
    let runner = other.runner().name("other").with(on("a", second)).start().await.unwrap();
    let job = other.wait_for(id, Status::Completed).await;
    assert_eq!(job.life.result.as_ref().unwrap().as_str(), r#""of the second""#);
    gate.open();
    eventually("the report of the first was answered", async || {
        let stats = paused_runner.stats();
        stats.running + stats.unreported == 0
    })
    .await;
    assert_eq!(paused_runner.stats().refused_reports, 1, "LEASE_LOST");
    let after = other.job(id).await;
    assert_eq!((after.version, after.life.result), (job.version, job.life.result), "it stands");
    let history = other.history_lines(id).await;
    assert_eq!(history, ["Queued", "Running", "Queued LEASE_EXPIRED", "Running", "Completed"]);
    let workers: Vec<_> =
        other.history(id).await.into_iter().filter_map(|row| row.worker).collect();
    let names: Vec<&str> = workers.iter().map(WorkerId::as_str).collect();
    assert!(names.contains(&"paused/a") && names.contains(&"other/a"), "{names:?}");
    paused_runner.stop(Duration::from_secs(5)).await;
    runner.stop(Duration::from_secs(5)).await;
}

/// Holds every batch up until it is opened.
struct Gate {
    open: mpsc::Sender<()>,
    thread_handle: thread::JoinHandle<()>,
}

impl Gate {
    fn shut(faults: &FaultInjector) -> Self {
        let gate = Arc::new(RwLock::new(()));
        let (open, opened) = mpsc::channel();
        let (shut, is_shut) = mpsc::channel();
        let thread_handle = thread::spawn({
            let gate = gate.clone();
            move || {
                let _shut = gate.write().unwrap();
                shut.send(()).unwrap();
                opened.recv().unwrap();
            }
        });
        is_shut.recv().unwrap();
        faults.inject(move |_| {
            drop(gate.read().unwrap());
            None
        });
        Gate { open, thread_handle }
    }

    fn open(self) {
        self.open.send(()).unwrap();
        self.thread_handle.join().unwrap();
    }
}
