//! Runners for jobs of a remote server, over connections of every quality.

mod hardships;
mod proxy;
mod remote_fixture;

use crate::fixture::{eventually, short_policy};
use engine::{PolicyDraft, Scope, Status, Tenant};
use remote_fixture::RemoteFixture;
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use worker::{Context, Fail, JobRequest, StartError, StepState, StopReason, on};

const SOON: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_of_jobs_are_done_once_each() {
    let remote_fixture = RemoteFixture::open().await;
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = runs.clone();
    let work = move |number: u32, _: Context| {
        counted.fetch_add(1, Ordering::SeqCst);
        async move { Ok::<_, Fail>(number) }
    };
    let mut jobs = Vec::new();
    for number in 0..500 {
        jobs.push(remote_fixture.fixture.submit(JobRequest::new("a", &number)).await);
    }
    let runner = remote_fixture.runner().with(on("a", work).slots(50)).start().await.unwrap();
    for (number, id) in jobs.into_iter().enumerate() {
        let job = remote_fixture.fixture.wait_for(id, Status::Completed).await;
        assert_eq!(job.life.result.unwrap().as_str(), number.to_string());
        assert_eq!(job.life.attempt, 1);
    }
    assert_eq!(runs.load(Ordering::SeqCst), 500);
    assert!(
        remote_fixture.proxy.claims() < 250,
        "{} claims for 500 jobs",
        remote_fixture.proxy.claims()
    );
    runner.stop(SOON).await;
}

#[tokio::test]
async fn a_waiting_claim_receives_a_submitted_job_at_once() {
    let remote_fixture = RemoteFixture::open().await;
    let fine = |_: (), _: Context| async { Ok::<_, Fail>(()) };
    let runner = remote_fixture.runner().with(on("a", fine)).start().await.unwrap();
    eventually("it waits", async || remote_fixture.proxy.claims() == 1).await;
    let id = remote_fixture.fixture.submit(JobRequest::new("a", &())).await;
    remote_fixture.fixture.wait_for(id, Status::Completed).await;
    assert!(remote_fixture.proxy.claims() <= 2, "the claim that waited brought it");
    runner.stop(SOON).await;
    assert!(
        remote_fixture.fixture.node.workers(&Scope::All).await.unwrap().is_empty(),
        "it signed off"
    );
}

#[tokio::test]
async fn a_remote_handler_reads_its_job_and_reports_progress() {
    let remote_fixture = RemoteFixture::open().await;
    remote_fixture
        .fixture
        .set_policy("a", PolicyDraft { lease_ms: Some(7_000), ..short_policy() })
        .await;
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let look = move |_: (), context: Context| async move {
        let job = context.job();
        assert_eq!((job.tenant.as_str(), job.job_type.as_str()), ("default", "a"));
        assert_eq!(job.subject.as_ref().unwrap().as_str(), "order/7");
        assert_eq!((job.correlation.as_str(), job.priority.number()), ("c-1", 9));
        assert_eq!(job.traceparent.as_ref().unwrap().as_str(), trace);
        assert_eq!((job.attempt, job.max_attempts, job.redrive_count), (1, 2, 0));
        assert_eq!((job.lease, job.timeout), (Duration::from_secs(7), Duration::from_secs(1)));
        assert!(!context.is_last_attempt());
        context.progress(40, "looked");
        context.message("all of it was there");
        context.result_url("https://example.org/7");
        Ok::<_, Fail>("seen")
    };
    let runner = remote_fixture.runner().with(on("a", look)).start().await.unwrap();
    let request = JobRequest::new("a", &()).subject("order/7").correlation("c-1").priority(9);
    let id = remote_fixture.fixture.submit(request.traceparent(trace)).await;
    eventually("it has ended", async || remote_fixture.fixture.job(id).await.status().is_ended())
        .await;
    let life = remote_fixture.fixture.job(id).await.life;
    assert_eq!(life.last_failure, None);
    assert_eq!(life.result.unwrap().as_str(), r#""seen""#);
    assert_eq!(life.result_url.unwrap().as_str(), "https://example.org/7");
    assert_eq!(life.message.as_deref(), Some("all of it was there"));
    let report = life.progress.unwrap().report;
    assert_eq!((report.percent, report.note.as_deref()), (40, Some("looked")));
    runner.stop(SOON).await;
}

#[tokio::test]
async fn progress_is_seen_while_a_handler_works() {
    let remote_fixture = RemoteFixture::open().await;
    let slow = |_: (), context: Context| async move {
        context.progress(10, "begun");
        let reason = context.stop_requested().await;
        assert_eq!(reason, StopReason::Cancelled);
        Err::<(), _>(Fail::cancelled())
    };
    let runner = remote_fixture.runner().with(on("a", slow)).start().await.unwrap();
    let id = remote_fixture.fixture.submit(JobRequest::new("a", &())).await;
    eventually("progress is seen", async || {
        remote_fixture.fixture.job(id).await.life.progress.is_some()
    })
    .await;
    remote_fixture.fixture.node.cancel(&Scope::All, id, None).await.unwrap();
    remote_fixture.fixture.wait_for(id, Status::Cancelled).await;
    runner.stop(SOON).await;
}

#[tokio::test]
async fn steps_are_done_once_and_children_belong_to_the_tenant_of_their_parent() {
    let remote_fixture = RemoteFixture::open().await;
    remote_fixture
        .fixture
        .set_policy("parent", PolicyDraft { timeout_ms: None, ..short_policy() })
        .await;
    let charged = Arc::new(AtomicUsize::new(0));
    let counted = charged.clone();
    let parent = move |_: (), context: Context| {
        let charged = counted.clone();
        async move {
            let charge = |_| async {
                charged.fetch_add(1, Ordering::SeqCst);
                Ok("receipt".to_owned())
            };
            let receipt: String = context.step("charge", charge).await?;
            context.submit_child(JobRequest::new("child", &receipt)).await?;
            let mail = |state| async move {
                if state == StepState::New { Err(Fail::retry("HALF", "half-way")) } else { Ok(()) }
            };
            context.step("mail", mail).await
        }
    };
    let child = |receipt: String, context: Context| async move {
        Ok::<_, Fail>(format!("{receipt} for {}", context.job().tenant))
    };
    let runner = remote_fixture.runner().with(on("parent", parent)).with(on("child", child));
    let runner = runner.start().await.unwrap();
    let acme = Tenant::parse("acme").unwrap();
    let draft = JobRequest::new("parent", &()).correlation("c-1").into_draft().unwrap();
    let id = remote_fixture.fixture.node.submit(&acme, draft).await.unwrap().job_id;
    assert_eq!(remote_fixture.fixture.wait_for(id, Status::Completed).await.life.attempt, 2);
    assert_eq!(charged.load(Ordering::SeqCst), 1);
    let query = store::Query {
        scope: Scope::One(acme),
        filter: engine::Filter::Everything,
        before: None,
        limit: 10,
    };
    let jobs = remote_fixture.fixture.node.list(&query).await.unwrap().jobs;
    let children: Vec<_> = jobs.iter().filter(|job| job.envelope.parent == Some(id)).collect();
    assert_eq!(children.len(), 1, "two attempts, one child");
    let child = remote_fixture.fixture.wait_for(children[0].id(), Status::Completed).await;
    assert_eq!(child.life.result.unwrap().as_str(), r#""receipt for acme""#);
    assert_eq!(child.envelope.correlation.as_str(), "c-1");
    runner.stop(SOON).await;
}

#[tokio::test]
async fn a_handler_that_takes_too_long_is_cut_off() {
    let remote_fixture = RemoteFixture::open().await;
    remote_fixture.fixture.set_policy("a", short_policy()).await;
    let endless = |_: (), _: Context| async { std::future::pending::<Result<(), Fail>>().await };
    let runner = remote_fixture.runner().with(on("a", endless)).start().await.unwrap();
    let id = remote_fixture.fixture.submit(JobRequest::new("a", &()).max_attempts(1)).await;
    let job = remote_fixture.fixture.wait_for(id, Status::Poisoned).await;
    assert_eq!(job.life.last_failure.unwrap().code.as_str(), "HANDLER_TIMEOUT");
    runner.stop(SOON).await;
}

#[tokio::test]
async fn a_remote_runner_sets_policies_over_http() {
    let remote_fixture = RemoteFixture::open().await;
    let fine = |_: (), _: Context| async { Ok::<_, Fail>(()) };
    let policy = PolicyDraft { max_attempts: Some(7), ..PolicyDraft::default() };
    let runner = remote_fixture.runner().with(on("a", fine).policy(policy)).start().await.unwrap();
    let id = remote_fixture.fixture.submit(JobRequest::new("a", &())).await;
    assert_eq!(remote_fixture.fixture.job(id).await.max_attempts, 7);
    runner.stop(SOON).await;
    let wrong = PolicyDraft { max_attempts: Some(0), ..PolicyDraft::default() };
    let refused =
        remote_fixture.runner().with(on("a", fine).policy(wrong)).start().await.err().unwrap();
    assert!(matches!(refused, StartError::Policy { .. }), "{refused:?}");
    let tenant =
        remote_fixture.runner().tenant("acme").with(on("a", fine)).start().await.err().unwrap();
    assert!(tenant.to_string().contains("decided by the key"), "{tenant}");
}

#[tokio::test]
async fn stopping_releases_running_jobs_and_leaves_no_lease() {
    let remote_fixture = RemoteFixture::open().await;
    let endless = |_: (), _: Context| async { std::future::pending::<Result<(), Fail>>().await };
    let runner = remote_fixture.runner().with(on("a", endless).slots(2)).start().await.unwrap();
    let id = remote_fixture.fixture.submit(JobRequest::new("a", &())).await;
    eventually("it runs, and more is waited for", async || {
        runner.stats().running == 1 && remote_fixture.proxy.claims() == 2
    })
    .await;
    let stopped = runner.stop(Duration::from_secs(1)).await;
    assert_eq!((stopped.released, stopped.unreported), (1, 0));
    let job = remote_fixture.fixture.job(id).await;
    assert_eq!((job.status(), job.life.attempt), (Status::Queued, 0));
    let later = remote_fixture.fixture.submit(JobRequest::new("a", &())).await;
    let fine = |_: (), _: Context| async { Ok::<_, Fail>(()) };
    let other = remote_fixture.runner().with(on("a", fine)).start().await.unwrap();
    let job = remote_fixture.fixture.wait_for(later, Status::Completed).await;
    assert_eq!(job.life.attempt, 1, "no worker that is gone had it");
    other.stop(SOON).await;
}

#[tokio::test]
async fn a_remote_runner_is_idle_when_no_job_is_left() {
    let remote_fixture = RemoteFixture::open().await;
    let fine = |_: (), _: Context| async { Ok::<_, Fail>(()) };
    let mut jobs = Vec::new();
    for _ in 0..20 {
        jobs.push(remote_fixture.fixture.submit(JobRequest::new("a", &())).await);
    }
    let runner = remote_fixture.runner().wait(Duration::from_secs(1)).with(on("a", fine).slots(3));
    let runner = runner.start().await.unwrap();
    runner.wait_idle().await;
    for id in jobs {
        assert_eq!(remote_fixture.fixture.job(id).await.status(), Status::Completed);
    }
    runner.stop(SOON).await;
}
