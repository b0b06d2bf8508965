//! After SIGTERM, the server answers requests under way, ends waits, and exits.

use super::{TestServer, wait_for, wait_until};
use platform::SystemClock;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::{thread, time::Duration};
use store::Clock;

/// Much less than the longest wait of a client, which is a minute.
const PROMPT: Duration = Duration::from_secs(10);

#[test]
fn a_stopping_server_answers_waiting_clients_and_exits() {
    let test_server = TestServer::start();
    let client = test_server.admin();
    let job = json!({"jobType": "lonely", "payload": 1});
    let id =
        client.post("/api/jobs").json(&job).send().ok(202)["jobId"].as_str().unwrap().to_owned();
    let mut events = client.get(&format!("/api/jobs/{id}/events")).events();
    assert_eq!(events.next().unwrap().data["status"], "Queued");
    let clock = SystemClock::new();
    let (began, answered, streamed) = thread::scope(|scope| {
        let claim = scope.spawn(|| {
            let claim_request = json!({
                "workerId": "w", "claimId": "c", "jobTypes": ["nothing"], "waitSeconds": 60,
            });
            client.post("/api/work/claim").json(&claim_request).within(PROMPT * 3).send().ok(200)
        });
        let status = scope.spawn(|| {
            let path = format!("/api/jobs/{id}/status?wait=60");
            client.get(&path).within(PROMPT * 3).send().ok(200)
        });
        let stream = scope.spawn(|| events.next().is_none());
        wait_until("the worker stands and waits", || {
            let workers = client.get("/api/workers").send().ok(200);
            workers["items"].as_array().unwrap().iter().any(|worker| worker["workerId"] == "w")
        });
        let began = clock.read().monotonic;
        let ended = test_server.stop();
        assert_eq!(ended.code(), Some(0), "{}", test_server.log());
        (began, (claim.join().unwrap(), status.join().unwrap()), stream.join().unwrap())
    });
    assert!(clock.read().monotonic - began < PROMPT, "it took its time");
    assert_eq!(answered.0, json!({"jobs": []}));
    assert_eq!(answered.1["status"], "Queued");
    assert!(streamed, "the stream ended in an orderly way");
    test_server.restart();
    let status = client.get(&format!("/api/jobs/{id}/status")).send().ok(200);
    assert_eq!((&status["status"], &status["attempt"]), (&json!("Queued"), &json!(0)), "{status}");
}

#[test]
fn a_draining_server_answers_requests_and_refuses_connections() {
    let test_server = TestServer::start();
    let client = test_server.admin();
    let ask = client.post("/api/jobs").json(&json!({"jobType": "late", "payload": 1}));
    let bytes = ask.bytes();
    let (first, rest) = bytes.split_at(bytes.len() - 5);
    let mut connection = client.connect().unwrap();
    connection.write(first).unwrap();
    // An answer on another connection: the first half was read before, or will be at once.
    client.get("/healthz").send().ok(200);
    test_server.send(Signal::TERM);
    wait_until("the server begins to drain", || test_server.log().contains("asked to end"));
    wait_until("a new connection is refused", || client.connect().is_err());
    connection.write(rest).unwrap();
    let taken: Value = connection.answer("POST").unwrap().ok(202);
    wait_for("the server ends", || test_server.has_ended().then_some(()));
    assert_eq!(test_server.stopped().code(), Some(0), "{}", test_server.log());
    test_server.restart();
    let status = client.get(taken["statusUrl"].as_str().unwrap()).send().ok(200);
    assert_eq!(status["status"], "Queued", "what was answered is kept");
}
