//! A remote server, used by a client that has its address and a key.

use crate::examples::run_with;
use consign::{Consign, Context, Fail, JobRequest, Remote, Status, on};
use engine::{CorrelationId, Grant, KeyDraft, KeyName, Principal, Right, Scope};
use platform::{SystemClock, SystemRandom};
use server::{Server, Settings};
use std::{net::TcpListener, sync::Arc, time::Duration};

struct RemoteFixture {
    consign: Consign,
    server: Server,
    key: String,
}

impl RemoteFixture {
    async fn open() -> Self {
        let consign = Consign::in_memory().unwrap();
        let key = key(&consign).await;
        let (clock, random) = (Arc::new(SystemClock::new()), Arc::new(SystemRandom));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let node = consign.node().clone();
        let server = Server::start(node, clock, random, Settings::default(), listener, None);
        RemoteFixture { server: server.await.unwrap(), consign, key }
    }

    fn url(&self) -> String {
        format!("http://{}", self.server.address())
    }
}

async fn key(consign: &Consign) -> String {
    let rights = [Right::Admin].into_iter().collect();
    let grant = Grant { scope: Scope::All, rights, types: Vec::new(), subjects: Vec::new() };
    let by = Principal { who: "test".into(), grant: grant.clone(), expires_at: None };
    let draft = KeyDraft { name: KeyName::parse("test").unwrap(), grant, expires_at: None };
    let correlation = CorrelationId::parse("test").unwrap();
    let made = consign.node().create_key(&by, correlation, draft).await;
    made.unwrap().1.expose()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_example_works_on_jobs_of_a_server() {
    let remote_fixture = RemoteFixture::open().await;
    let (url, key) = (remote_fixture.url(), remote_fixture.key.clone());
    let output = tokio::task::spawn_blocking(move || {
        run_with("remote", &[("CONSIGN_URL", &url), ("CONSIGN_KEY", &key)])
    });
    let output = output.await.unwrap();
    assert!(output.starts_with("submitted as "), "{output}");
    assert!(output.ends_with("Completed: sent to ada@example.org at attempt 1\n"), "{output}");
}

#[tokio::test]
async fn a_remote_client_submits_runs_awaits_and_cancels_jobs() {
    let remote_fixture = RemoteFixture::open().await;
    let remote = Remote::connect(&remote_fixture.url(), &remote_fixture.key).unwrap();
    let twice = |number: u32, _: Context| async move { Ok::<_, Fail>(2 * number) };
    let runner = remote.runner().with(on("twice", twice)).start().await.unwrap();
    let requests = (0..3).map(|number| JobRequest::new("twice", &number)).collect();
    assert_eq!(remote.submit_all(requests).await.unwrap().len(), 3);
    let job = remote.submit(JobRequest::new("twice", &21)).await.unwrap();
    let job = remote.wait(&job.job_id, Duration::from_secs(60)).await.unwrap();
    assert_eq!(consign::result_of::<u32>(&job).unwrap(), Some(42));
    let later = JobRequest::new("twice", &1).delay(Duration::from_secs(3_600));
    let later = remote.submit(later).await.unwrap();
    let waits = remote.wait(&later.job_id, Duration::ZERO).await.unwrap();
    assert_eq!(waits.status, "Queued");
    assert_eq!(remote.cancel(&later.job_id).await.unwrap().status, "Cancelled");
    let id = consign::JobId::parse(&later.job_id).unwrap();
    let stored = remote_fixture.consign.job(id).await.unwrap();
    assert_eq!(stored.status(), Status::Cancelled);
    assert!(stored.envelope.key.is_some(), "it can be submitted twice");
    runner.stop(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_remote_client_reports_invalid_input_at_once() {
    let remote_fixture = RemoteFixture::open().await;
    let remote = Remote::connect(&remote_fixture.url(), &remote_fixture.key).unwrap();
    let wrong = remote.submit(JobRequest::new("No Type", &())).await.unwrap_err();
    assert!(wrong.to_string().contains("jobType"), "{wrong}");
    assert!(Remote::connect("nowhere", "k").is_err());
}
