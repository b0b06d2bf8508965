//! What a runner does for handlers that behave well.

use crate::fixture::{Fixture, eventually, short_policy};
use engine::{JobType, Scope, Status};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use worker::{
    Context, Fail, Handler, JobRequest, StartError, StepState, StopReason, on, on_handler,
};

const SOON: Duration = Duration::from_secs(5);

#[tokio::test]
async fn a_payload_comes_typed_and_a_result_goes_back() {
    #[derive(serde::Serialize, serde::Deserialize)]
    struct Sum {
        a: u32,
        b: u32,
    }
    let fixture = Fixture::open();
    let add = |sum: Sum, context: Context| async move {
        context.message(format!("{} and {}", sum.a, sum.b));
        Ok::<_, Fail>(sum.a + sum.b)
    };
    let runner = fixture.runner().name("calc").with(on("sum", add)).start().await.unwrap();
    let id = fixture.submit(JobRequest::new("sum", &Sum { a: 2, b: 3 })).await;
    let job = fixture.wait_for(id, Status::Completed).await;
    assert_eq!(job.life.result.unwrap().as_str(), "5");
    assert_eq!(job.life.message.as_deref(), Some("2 and 3"));
    let rows = fixture.history(id).await;
    assert_eq!(rows[1].worker.as_ref().unwrap().as_str(), "calc/sum");
    runner.stop(SOON).await;
}

#[tokio::test]
async fn a_handler_can_be_a_type_of_its_own() {
    struct Counting(Arc<AtomicUsize>);
    impl Handler for Counting {
        type Payload = usize;
        type Output = ();

        async fn run(&self, by: usize, _: Context) -> Result<(), Fail> {
            self.0.fetch_add(by, Ordering::SeqCst);
            Ok(())
        }
    }
    let (fixture, sum) = (Fixture::open(), Arc::new(AtomicUsize::new(0)));
    let registration = on_handler("count", Counting(sum.clone()));
    let runner = fixture.runner().with(registration).start().await.unwrap();
    let id = fixture.submit(JobRequest::new("count", &7)).await;
    assert_eq!(fixture.wait_for(id, Status::Completed).await.life.result, None, "() is no result");
    assert_eq!(sum.load(Ordering::SeqCst), 7);
    runner.stop(SOON).await;
}

#[tokio::test]
async fn no_more_run_at_once_than_there_are_slots() {
    let (fixture, now, most) =
        (Fixture::open(), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (running, peak) = (now.clone(), most.clone());
    let work = move |_: (), context: Context| {
        let (running, peak) = (running.clone(), peak.clone());
        async move {
            peak.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            context.sleep(Duration::from_millis(5)).await?;
            running.fetch_sub(1, Ordering::SeqCst);
            Ok::<_, Fail>(())
        }
    };
    let runner = fixture.runner().with(on("nap", work).slots(3)).start().await.unwrap();
    let mut jobs = Vec::new();
    for _ in 0..30 {
        jobs.push(fixture.submit(JobRequest::new("nap", &())).await);
    }
    for job in jobs {
        fixture.wait_for(job, Status::Completed).await;
    }
    assert_eq!(most.load(Ordering::SeqCst), 3, "all slots, and no more");
    runner.stop(SOON).await;
}

#[tokio::test]
async fn a_job_that_is_put_off_starts_when_its_time_has_come() {
    let fixture = Fixture::open();
    let now = |_: (), _: Context| async { Ok::<_, Fail>(()) };
    let runner = fixture.runner().with(on("later", now)).start().await.unwrap();
    let id = fixture.submit(JobRequest::new("later", &()).delay(Duration::from_secs(1))).await;
    let job = fixture.wait_for(id, Status::Completed).await;
    let started = job.life.started_at.unwrap();
    assert!(started >= job.life.due_at, "never early");
    // Only the maintenance loop wakes the runner: without it, the claim would wait for half a
    // minute.
    assert!(started.since(job.life.due_at) < Duration::from_secs(5), "{started:?}");
    runner.stop(SOON).await;
}

#[tokio::test]
async fn progress_is_seen_while_the_handler_runs() {
    let fixture = Fixture::open();
    let slow = |_: (), context: Context| async move {
        context.progress(40, "counting sheep");
        context.stop_requested().await;
        Err::<(), _>(Fail::cancelled())
    };
    let runner = fixture.runner().with(on("slow", slow)).start().await.unwrap();
    let id = fixture.submit(JobRequest::new("slow", &())).await;
    eventually("progress is seen", async || fixture.job(id).await.life.progress.is_some()).await;
    let report = fixture.job(id).await.life.progress.unwrap().report;
    assert_eq!((report.percent, report.note.as_deref()), (40, Some("counting sheep")));
    fixture.node.cancel(&Scope::All, id, None).await.unwrap();
    fixture.wait_for(id, Status::Cancelled).await;
    runner.stop(SOON).await;
}

#[tokio::test]
async fn a_long_handler_keeps_its_lease() {
    let fixture = Fixture::open();
    fixture
        .set_policy("long", engine::PolicyDraft { timeout_ms: Some(60_000), ..short_policy() })
        .await;
    let long = |_: (), context: Context| async move {
        context.sleep(Duration::from_millis(2_500)).await?;
        Ok::<_, Fail>(())
    };
    let runner = fixture.runner().with(on("long", long)).start().await.unwrap();
    let id = fixture.submit(JobRequest::new("long", &())).await;
    let job = fixture.wait_for(id, Status::Completed).await;
    assert_eq!(job.life.attempt, 1, "two and a half leases long");
    runner.stop(SOON).await;
}

#[tokio::test]
async fn steps_and_children_reach_the_store() {
    let fixture = Fixture::open();
    fixture.set_policy("parent", short_policy()).await;
    let parent = |_: (), context: Context| async move {
        let first: u32 = context.step("first", |_| async { Ok(7) }).await?;
        let child = JobRequest::new("child", &first);
        context.submit_child(child).await?;
        let second = context.step("second", |state| async move {
            // The first time it fails in the middle.
            if state == StepState::New { Err(Fail::retry("HALF", "half-way")) } else { Ok(()) }
        });
        second.await
    };
    let child = |number: u32, _: Context| async move { Ok::<_, Fail>(number) };
    let registrations = fixture.runner().with(on("parent", parent)).with(on("child", child));
    let runner = registrations.start().await.unwrap();
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let request = JobRequest::new("parent", &()).correlation("c-1").traceparent(trace);
    let id = fixture.submit(request).await;
    assert_eq!(fixture.wait_for(id, Status::Completed).await.life.attempt, 2);
    let all = fixture.node.queues(&Scope::All).await.unwrap();
    let children = all.iter().find(|depth| depth.queue.job_type.as_str() == "child").unwrap();
    assert_eq!(children.counts.submitted, 1, "two attempts, one child");
    let query = store::Query {
        scope: Scope::All,
        filter: engine::Filter::Everything,
        before: None,
        limit: 10,
    };
    let jobs = fixture.node.list(&query).await.unwrap().jobs;
    let child = jobs.iter().find(|job| job.envelope.parent == Some(id)).unwrap();
    assert_eq!(child.envelope.correlation.as_str(), "c-1");
    assert_eq!(child.envelope.traceparent.as_ref().unwrap().as_str(), trace);
    runner.stop(SOON).await;
}

#[tokio::test]
async fn a_snoozed_job_costs_no_attempt() {
    let fixture = Fixture::open();
    let naps = Arc::new(AtomicUsize::new(0));
    let counted = naps.clone();
    let later = move |_: (), _: Context| {
        let nth = counted.fetch_add(1, Ordering::SeqCst);
        async move { if nth < 3 { Err(Fail::snooze(Duration::ZERO)) } else { Ok(()) } }
    };
    let runner = fixture.runner().with(on("later", later)).start().await.unwrap();
    let id = fixture.submit(JobRequest::new("later", &())).await;
    let job = fixture.wait_for(id, Status::Completed).await;
    assert_eq!((job.life.attempt, job.life.releases), (1, 3));
    runner.stop(SOON).await;
}

#[tokio::test]
async fn stopping_lets_handlers_end_and_gives_back_the_rest() {
    let fixture = Fixture::open();
    let quick = |_: (), context: Context| async move {
        context.sleep(Duration::from_millis(300)).await?;
        Ok::<_, Fail>(())
    };
    let stop_count = Arc::new(AtomicUsize::new(0));
    let count = stop_count.clone();
    let endless = move |_: (), context: Context| {
        let count = count.clone();
        async move {
            context.runner_stopping().await;
            count.fetch_add(1, Ordering::SeqCst);
            std::future::pending::<Result<(), Fail>>().await
        }
    };
    let registrations = fixture.runner().with(on("quick", quick)).with(on("endless", endless));
    let runner = registrations.start().await.unwrap();
    let quick = fixture.submit(JobRequest::new("quick", &())).await;
    let endless = fixture.submit(JobRequest::new("endless", &())).await;
    // Waits until both run: a claimed job whose handler has not begun would be given back at once.
    eventually("both run", async || runner.stats().running == 2).await;
    let stopped = runner.stop(Duration::from_secs(2)).await;
    assert_eq!((stopped.released, stopped.unreported), (1, 0));
    assert_eq!(stop_count.load(Ordering::SeqCst), 1, "it could have ended in time");
    assert_eq!(fixture.job(quick).await.status(), Status::Completed);
    let job = fixture.job(endless).await;
    assert_eq!((job.status(), job.life.attempt), (Status::Queued, 0), "nothing is counted");
    assert_eq!(fixture.history_lines(endless).await, ["Queued", "Running", "Queued"]);
}

#[tokio::test]
async fn a_runner_that_is_dropped_gives_back_what_it_has() {
    let fixture = Fixture::open();
    let endless = |_: (), _: Context| async { std::future::pending::<Result<(), Fail>>().await };
    let runner = fixture.runner().with(on("endless", endless)).start().await.unwrap();
    let id = fixture.submit(JobRequest::new("endless", &())).await;
    fixture.wait_for(id, Status::Running).await;
    drop(runner);
    let job = fixture.job(id).await;
    assert_eq!((job.status(), job.life.attempt), (Status::Queued, 0));
}

#[tokio::test]
async fn a_runner_start_error_has_its_reason() {
    let fixture = Fixture::open();
    let fine = || on("fine", |_: (), _: Context| async { Ok::<_, Fail>(()) });
    let message =
        |error: Result<worker::RunnerHandle, StartError>| error.err().unwrap().to_string();
    let none = message(fixture.runner().start().await);
    assert!(none.contains("there is no handler"), "{none}");
    let twice = message(fixture.runner().with(fine()).with(fine()).start().await);
    assert!(twice.contains("fine has two handlers"), "{twice}");
    let slots = message(fixture.runner().with(fine().slots(0)).start().await);
    assert!(slots.contains("must be from 1 to 10000"), "{slots}");
    let name = on("No", |_: (), _: Context| async { Ok::<_, Fail>(()) });
    assert!(message(fixture.runner().with(name).start().await).contains("jobType"));
}

#[tokio::test]
async fn a_runner_is_seen_as_a_live_worker_of_each_of_its_types() {
    let fixture = Fixture::open();
    let fine = |_: (), _: Context| async { Ok::<_, Fail>(()) };
    let runner = fixture.runner().name("r").host("h").with(on("a", fine)).with(on("b", fine));
    let runner = runner.start().await.unwrap();
    eventually("both are seen", async || {
        fixture.node.workers(&Scope::All).await.unwrap().len() == 2
    })
    .await;
    let workers = fixture.node.workers(&Scope::All).await.unwrap();
    for (worker, name) in workers.iter().zip(["a", "b"]) {
        assert_eq!(worker.worker.as_str(), format!("r/{name}"));
        assert_eq!(worker.job_types, [JobType::parse(name).unwrap()]);
        assert!(worker.live);
    }
    runner.stop(SOON).await;
    assert!(fixture.node.workers(&Scope::All).await.unwrap().is_empty(), "it signed off");
}

#[tokio::test]
async fn only_jobs_of_its_tenant_are_taken() {
    let fixture = Fixture::open();
    let fine = |_: (), _: Context| async { Ok::<_, Fail>(()) };
    let runner = fixture.runner().tenant("acme").with(on("a", fine)).start().await.unwrap();
    let default_tenant_job = fixture.submit(JobRequest::new("a", &())).await;
    let draft = JobRequest::new("a", &()).into_draft().unwrap();
    let acme = engine::Tenant::parse("acme").unwrap();
    let own = fixture.node.submit(&acme, draft).await.unwrap().job_id;
    fixture.wait_for(own, Status::Completed).await;
    assert_eq!(fixture.job(default_tenant_job).await.status(), Status::Queued);
    runner.stop(SOON).await;
}

#[test]
fn without_a_runtime_of_its_caller_a_runner_has_one_of_its_own() {
    let fixture = Fixture::open();
    let sleeps = |_: (), _: Context| async {
        tokio::time::sleep(Duration::from_millis(1)).await;
        Ok::<_, Fail>(())
    };
    let starting = fixture.runner().with(on("a", sleeps)).start();
    let runner = futures_less(starting).unwrap();
    let id = futures_less(fixture.submit(JobRequest::new("a", &())));
    while futures_less(fixture.job(id)).status() != Status::Completed {
        std::thread::sleep(Duration::from_millis(2));
    }
    drop(runner);
}

/// Waits without any runtime.
pub(crate) fn futures_less<T>(waiting: impl Future<Output = T>) -> T {
    use std::{pin::pin, task};
    struct Unpark(std::thread::Thread);
    impl task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut waiting = pin!(waiting);
    loop {
        match waiting.as_mut().poll(&mut task::Context::from_waker(&waker)) {
            task::Poll::Ready(done) => return done,
            task::Poll::Pending => std::thread::park(),
        }
    }
}

#[tokio::test]
async fn a_handler_receives_and_acknowledges_a_cancel() {
    let fixture = Fixture::open();
    fixture
        .set_policy("obedient", engine::PolicyDraft { timeout_ms: None, ..short_policy() })
        .await;
    let obedient = |_: (), context: Context| async move {
        let reason = context.stop_requested().await;
        assert_eq!(
            (reason, context.stop_reason()),
            (StopReason::Cancelled, Some(StopReason::Cancelled))
        );
        Err::<(), _>(Fail::cancelled())
    };
    let runner = fixture.runner().with(on("obedient", obedient)).start().await.unwrap();
    let id = fixture.submit(JobRequest::new("obedient", &())).await;
    fixture.wait_for(id, Status::Running).await;
    fixture.node.cancel(&Scope::All, id, None).await.unwrap();
    fixture.wait_for(id, Status::Cancelled).await;
    assert_eq!(fixture.history_lines(id).await, ["Queued", "Running", "Running", "Cancelled"]);
    runner.stop(SOON).await;
}

#[tokio::test]
async fn the_last_progress_of_a_handler_is_stored() {
    let fixture = Fixture::open();
    let quick = |_: (), context: Context| async move {
        context.progress(100, "all of it");
        Ok::<_, Fail>(())
    };
    let runner = fixture.runner().with(on("quick", quick)).start().await.unwrap();
    let id = fixture.submit(JobRequest::new("quick", &())).await;
    let job = fixture.wait_for(id, Status::Completed).await;
    assert_eq!(job.life.progress.unwrap().report.percent, 100);
    runner.stop(SOON).await;
}

#[tokio::test]
async fn a_snooze_of_a_thousand_years_is_as_long_as_is_lawful() {
    let fixture = Fixture::open();
    let sleepy = |_: (), _: Context| async {
        Err::<(), _>(Fail::snooze(Duration::from_secs(1_000 * 365 * 86_400)))
    };
    let runner = fixture.runner().with(on("sleepy", sleepy)).start().await.unwrap();
    let id = fixture.submit(JobRequest::new("sleepy", &())).await;
    eventually("it was given back", async || fixture.job(id).await.life.releases == 1).await;
    assert_eq!(fixture.job(id).await.status(), Status::Queued);
    runner.stop(SOON).await;
}
