//! Connections that break, answers that get lost, servers that are away, keys that are revoked.

use super::{SOON, remote_fixture::RemoteFixture};
use crate::fixture::{eventually, short_policy};
use engine::{PolicyDraft, Status};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use worker::{Context, Fail, JobRequest, StopReason, on};

#[tokio::test]
async fn a_claim_with_a_lost_answer_returns_the_same_leases() {
    let remote_fixture = RemoteFixture::open().await;
    let mut jobs = Vec::new();
    for _ in 0..5 {
        jobs.push(remote_fixture.fixture.submit(JobRequest::new("a", &())).await);
    }
    remote_fixture.proxy.lose_answer_to("/api/work/claim");
    let fine = |_: (), _: Context| async { Ok::<_, Fail>(()) };
    let runner = remote_fixture.runner().with(on("a", fine)).start().await.unwrap();
    for id in jobs {
        let job = remote_fixture.fixture.wait_for(id, Status::Completed).await;
        assert_eq!((job.life.attempt, job.life.losses), (1, 0));
        assert_eq!(
            remote_fixture.fixture.history_lines(id).await,
            ["Queued", "Running", "Completed"]
        );
    }
    assert_eq!(remote_fixture.proxy.answers_lost(), 1);
    runner.stop(SOON).await;
}

#[tokio::test]
async fn a_retried_report_gets_the_first_answer() {
    let remote_fixture = RemoteFixture::open().await;
    remote_fixture.proxy.lose_answer_to("/api/work/settle");
    let fine = |_: (), _: Context| async { Ok::<_, Fail>(7) };
    let runner = remote_fixture.runner().with(on("a", fine)).start().await.unwrap();
    let id = remote_fixture.fixture.submit(JobRequest::new("a", &())).await;
    remote_fixture.fixture.wait_for(id, Status::Completed).await;
    eventually("it knows", async || runner.stats().reported == 1).await;
    assert_eq!(remote_fixture.proxy.answers_lost(), 1);
    assert_eq!(runner.stats().refused_reports, 0);
    assert_eq!(remote_fixture.fixture.history_lines(id).await, ["Queued", "Running", "Completed"]);
    runner.stop(SOON).await;
}

#[tokio::test]
async fn a_line_that_was_cut_costs_no_attempt_and_no_work() {
    let remote_fixture = RemoteFixture::open().await;
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = runs.clone();
    let nap = move |_: (), context: Context| {
        counted.fetch_add(1, Ordering::SeqCst);
        async move {
            context.sleep(Duration::from_millis(200)).await?;
            context.step("late", |_| async { Ok(()) }).await // asks while the server is away
        }
    };
    let runner = remote_fixture.runner().with(on("a", nap).slots(4)).start().await.unwrap();
    let mut jobs = Vec::new();
    for _ in 0..12 {
        jobs.push(remote_fixture.fixture.submit(JobRequest::new("a", &())).await);
    }
    eventually("some run", async || runner.stats().running == 4).await;
    remote_fixture.proxy.cut();
    tokio::time::sleep(Duration::from_secs(1)).await; // handlers end while no report gets through
    remote_fixture.proxy.restore();
    for id in jobs {
        let job = remote_fixture.fixture.wait_for(id, Status::Completed).await;
        assert_eq!(job.life.attempt, 1);
    }
    assert_eq!(runs.load(Ordering::SeqCst), 12, "each ran once");
    runner.stop(SOON).await;
}

/// The lease is over, and another worker has the job. The first handler learns that and reports
/// "cancelled", which cancels nothing.
#[tokio::test]
async fn a_handler_learns_that_its_lease_has_run_out_unheard() {
    let remote_fixture = RemoteFixture::open().await;
    remote_fixture
        .fixture
        .set_policy("a", PolicyDraft { timeout_ms: None, ..short_policy() })
        .await;
    let first = |_: (), context: Context| async move {
        assert_eq!(context.stop_requested().await, StopReason::LeaseLost);
        Err::<(), _>(Fail::cancelled())
    };
    let cut_off_runner = remote_fixture.runner().with(on("a", first)).start().await.unwrap();
    let id = remote_fixture.fixture.submit(JobRequest::new("a", &())).await;
    eventually("it runs", async || cut_off_runner.stats().running == 1).await;
    remote_fixture.proxy.cut();
    eventually("its handler has stopped", async || cut_off_runner.stats().running == 0).await;
    let second = |_: (), _: Context| async { Ok::<_, Fail>("of the second") };
    let other = remote_fixture.other_runner().with(on("a", second)).start().await.unwrap();
    let job = remote_fixture.fixture.wait_for(id, Status::Completed).await;
    assert_eq!(job.life.result.unwrap().as_str(), r#""of the second""#);
    remote_fixture.proxy.restore();
    eventually("the first has reported", async || cut_off_runner.stats().unreported == 0).await;
    assert_eq!(cut_off_runner.stats().refused_reports, 1);
    assert_eq!(remote_fixture.fixture.job(id).await.version, job.version, "it stands");
    cut_off_runner.stop(SOON).await;
    other.stop(SOON).await;
}

/// The server gets every heartbeat, and all its answers are lost. So the handler is asked to stop,
/// and its "cancelled" is reported as giving the job back: no client cancelled it.
#[tokio::test]
async fn a_handler_stopped_under_a_valid_lease_releases_its_job() {
    let remote_fixture = RemoteFixture::open().await;
    let policy = PolicyDraft { timeout_ms: None, max_attempts: Some(1), ..short_policy() };
    remote_fixture.fixture.set_policy("a", policy).await;
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = runs.clone();
    let work = move |_: (), context: Context| {
        let first = counted.fetch_add(1, Ordering::SeqCst) == 0;
        async move {
            if first {
                context.stop_requested().await;
                return Err(Fail::cancelled());
            }
            Ok(())
        }
    };
    let runner = remote_fixture.runner().with(on("a", work)).start().await.unwrap();
    let id = remote_fixture.fixture.submit(JobRequest::new("a", &())).await;
    eventually("it runs", async || runner.stats().running == 1).await;
    remote_fixture.proxy.lose_answers_to("/api/work/heartbeat");
    let job = remote_fixture.fixture.wait_for(id, Status::Completed).await;
    assert_eq!((job.life.attempt, job.life.releases), (1, 1));
    assert_eq!(runs.load(Ordering::SeqCst), 2);
    runner.stop(SOON).await;
}

#[tokio::test]
async fn a_runner_stops_in_time_though_its_server_is_gone() {
    let remote_fixture = RemoteFixture::open().await;
    let nap =
        |_: (), context: Context| async move { context.sleep(Duration::from_millis(200)).await };
    let runner = remote_fixture.runner().with(on("a", nap)).start().await.unwrap();
    remote_fixture.fixture.submit(JobRequest::new("a", &())).await;
    eventually("it runs", async || runner.stats().running == 1).await;
    remote_fixture.proxy.cut();
    let stopping = runner.stop(Duration::from_secs(1));
    let stopped = tokio::time::timeout(Duration::from_secs(30), stopping).await.unwrap();
    assert_eq!(stopped.unreported, 1, "and it says what it could not tell");
}

/// A revoked key: nothing is claimed, nothing is lost, and the runner goes on.
#[tokio::test]
async fn a_key_that_is_taken_back_is_survived() {
    let remote_fixture = RemoteFixture::open().await;
    let (gate, gate_opened) = tokio::sync::watch::channel(false);
    let wait = move |_: (), _: Context| {
        let mut gate_opened = gate_opened.clone();
        async move {
            gate_opened.wait_for(|open| *open).await?;
            Ok(())
        }
    };
    let client = remote_fixture.client();
    let request = wire::KeyRequest {
        name: "worker".into(),
        scopes: vec!["work".into()],
        ..wire::KeyRequest::default()
    };
    let created = client.create_key(&request).await.unwrap();
    let address = client.address().to_owned();
    let worker_client = client::Client::new(&address, Some(&created.key)).unwrap();
    let runner = worker::Runner::remote(&worker_client).with(on("a", wait)).start().await.unwrap();
    let id = remote_fixture.fixture.submit(JobRequest::new("a", &())).await;
    eventually("it runs", async || runner.stats().running == 1).await;
    client.revoke_key(&created.id).await.unwrap();
    gate.send_replace(true);
    eventually("it has ended here", async || runner.stats().unreported == 1).await;
    assert_eq!(
        remote_fixture.fixture.job(id).await.status(),
        Status::Running,
        "no worker may say so"
    );
    let stopped = runner.stop(Duration::from_secs(1)).await;
    assert_eq!(stopped.unreported, 1);
}
