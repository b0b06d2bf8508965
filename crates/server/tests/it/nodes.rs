//! Two servers over one store: what is done through one is visible through the other.

use client::{Client, Polled, StreamEvent};
use engine::{CorrelationId, Grant, KeyDraft, KeyName, Principal, Right, Scope};
use platform::{Node, SystemClock, SystemRandom};
use server::{Server, Settings};
use std::{net::TcpListener, sync::Arc, time::Duration};
use store::Memory;
use wire::{ClaimRequest, NodeState, NodeStatus, Secret, SubmitRequest};

/// An upper bound that is reached only when something never happens.
const BOUND: Duration = Duration::from_secs(60);

struct TestServer {
    client: Client,
    server: Server,
    node: Arc<Node>,
}

impl TestServer {
    async fn open(memory: Memory, key: Option<Secret>) -> (Self, Secret) {
        let (clock, random) = (Arc::new(SystemClock::new()), Arc::new(SystemRandom));
        let node = Node::start(Arc::new(memory), clock.clone(), random.clone(), Default::default());
        let node = Arc::new(node.unwrap());
        let key = match key {
            Some(key) => key,
            None => new_key(&node).await,
        };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let started =
            Server::start(node.clone(), clock, random, Settings::default(), listener, None);
        let server = started.await.unwrap();
        let client = Client::new(&format!("http://{}", server.address()), Some(&key)).unwrap();
        (TestServer { client, server, node }, key)
    }

    async fn submit(&self) -> String {
        let job = SubmitRequest { job_type: "email".into(), ..SubmitRequest::default() };
        self.client.submit(&job).await.unwrap().job_id
    }

    async fn nodes(&self) -> Vec<NodeStatus> {
        self.client.nodes().await.unwrap().items
    }
}

async fn new_key(node: &Node) -> Secret {
    let rights = [Right::Admin].into_iter().collect();
    let grant = Grant { scope: Scope::All, rights, types: Vec::new(), subjects: Vec::new() };
    let by = Principal { who: "test".into(), name: None, grant: grant.clone(), expires_at: None };
    let draft = KeyDraft { name: KeyName::parse("test").unwrap(), grant, expires_at: None };
    let created = node.create_key(&by, CorrelationId::parse("test").unwrap(), draft).await;
    Secret::new(created.unwrap().1.expose())
}

/// Two servers whose nodes know of each other.
async fn two() -> (TestServer, TestServer) {
    let memory = Memory::shared(Arc::new(SystemClock::new()), Arc::new(SystemRandom));
    let (near, key) = TestServer::open(memory.another(), None).await;
    let (far, _) = TestServer::open(memory, Some(key)).await;
    for test_server in [&near, &far] {
        until("each knows both", async || test_server.nodes().await.len() == 2).await;
    }
    (near, far)
}

async fn until(what: &str, it: impl AsyncFn() -> bool) {
    let happens = async {
        while !it().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(BOUND, happens).await.is_ok(), "in vain: {what}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_poll_at_one_node_returns_when_the_job_ends_at_another() {
    let (near, far) = two().await;
    let id = far.submit().await;
    let wait = near.client.poll(&id, None, BOUND);
    let cancel = async {
        // A wait that comes too late would be answered at once, and prove nothing.
        until("a client waits", async || near.node.watches() > 0).await;
        far.client.cancel(&id).await.unwrap();
    };
    match tokio::join!(wait, cancel).0.unwrap() {
        Polled::Now { status, .. } => assert_eq!(status.status, "Cancelled"),
        Polled::Same => panic!("it changed"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_at_one_node_shows_changes_made_at_another() {
    let (near, far) = two().await;
    let id = far.submit().await;
    let mut stream = near.client.watch(&id, None).await.unwrap();
    let status_of = |event| match event {
        Some(StreamEvent::Status { status, .. }) => status.status.to_string(),
        other => panic!("not a status: {other:?}"),
    };
    assert_eq!(status_of(stream.next().await.unwrap()), "Queued");
    far.client.cancel(&id).await.unwrap();
    assert_eq!(status_of(stream.next().await.unwrap()), "Cancelled");
    assert!(stream.next().await.unwrap().is_none(), "the stream is over");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_at_one_node_gets_a_job_submitted_at_another() {
    let (near, far) = two().await;
    let claim_request = ClaimRequest {
        worker_id: "w".into(),
        claim_id: "c".into(),
        job_types: vec!["email".into()],
        wait_seconds: Some(60),
        ..ClaimRequest::default()
    };
    let claim = near.client.claim(&claim_request);
    let submit = async {
        until("the claim waits", async || near.node.waiting().waiting_claims == 1).await;
        far.submit().await
    };
    let (claimed, id) = tokio::join!(claim, submit);
    let jobs = claimed.unwrap().jobs;
    assert_eq!(jobs.iter().map(|job| &*job.base.base.job_id).collect::<Vec<_>>(), [&*id]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_node_lists_all_nodes_their_states_and_the_leader() {
    let (near, far) = two().await;
    let seen = near.nodes().await;
    assert!(
        seen.iter()
            .all(|node| node.state == NodeState::Live && node.version == env!("CARGO_PKG_VERSION"))
    );
    assert_eq!(seen.iter().filter(|node| node.leader).count(), 1, "{seen:?}");
    let leads =
        |nodes: &[NodeStatus], id: &str| nodes.iter().any(|node| node.leader && node.node_id == id);
    let (going, staying) = if leads(&seen, near.node.id()) { (near, far) } else { (far, near) };
    going.server.drain(Duration::ZERO).await;
    until("another leads", async || leads(&staying.nodes().await, staying.node.id())).await;
    let seen = staying.nodes().await;
    let gone = seen.iter().find(|node| node.node_id == going.node.id()).unwrap();
    assert_eq!(gone.state, NodeState::Draining);
}
