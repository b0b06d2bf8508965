//! The server checks a waiting caller again when the wait is over: a credential may end before its
//! requests do.

use crate::serve::{Client, TestServer, customer::fresh, wait_until};
use platform::SystemClock;
use serde_json::{Value, json};
use std::{thread, time::Duration};
use store::Clock;

const SCOPES: [&str; 3] = ["work", "jobs:read", "jobs:enqueue"];

/// A key of a tenant of its own, with its id.
fn key(test_server: &TestServer, more: Value) -> (Client, String) {
    let mut grant = json!({"name": fresh("worker"), "tenant": "acme", "scopes": SCOPES});
    grant.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let made = test_server.admin().post("/api/keys").json(&grant).send().ok(201);
    let client = test_server.anonymous().with_key(made["key"].as_str().unwrap());
    (client, made["id"].as_str().unwrap().into())
}

fn revoke(test_server: &TestServer, id: &str) {
    let answer = test_server.admin().delete(&format!("/api/keys/{id}")).send();
    assert_eq!(answer.status, 204, "{}", answer.text());
}

fn claim(client: &Client, job_type: &str, worker: &str, wait_seconds: u64) -> crate::serve::Ask {
    let claim_request = json!({"workerId": worker, "claimId": fresh("claim"), "jobTypes": [job_type], "waitSeconds": wait_seconds});
    client.post("/api/work/claim").json(&claim_request)
}

/// A worker that waits is listed as alive, which shows that it waits.
fn wait_for_worker(owner: &Client, worker: &str) {
    wait_until("the claim waits", || {
        let workers = owner.get("/api/workers").send().ok(200);
        workers["items"].as_array().unwrap().iter().any(|seen| seen["workerId"] == worker)
    });
}

/// The job is as it was before the claim: queued, and without a counted attempt.
fn check_untouched(owner: &Client, id: &str) {
    wait_until("the job is given back", || {
        let status = owner.get(&format!("/api/jobs/{id}/status")).send().ok(200);
        status["status"] == "Queued" && status["attempt"] == 0
    });
}

fn submit(owner: &Client, job_type: &str) -> String {
    let job = owner.post("/api/jobs").json(&json!({"jobType": job_type})).send().ok(202);
    job["jobId"].as_str().unwrap().into()
}

#[test]
fn a_key_that_is_revoked_while_its_claim_waits_gets_no_job() {
    let test_server = TestServer::start();
    let (owner, _) = key(&test_server, json!({}));
    let (thief, id) = key(&test_server, json!({}));
    let (job_type, worker) = (fresh("type"), fresh("worker"));
    let job = thread::scope(|scope| {
        let waiting = scope.spawn(|| claim(&thief, &job_type, &worker, 30).send());
        wait_for_worker(&owner, &worker);
        revoke(&test_server, &id);
        let job = submit(&owner, &job_type);
        waiting.join().unwrap().problem(401, "UNAUTHENTICATED");
        job
    });
    check_untouched(&owner, &job);
    let jobs = claim(&owner, &job_type, "honest", 20).send().ok(200);
    assert_eq!(jobs["jobs"][0]["jobId"], job.as_str());
    assert_eq!(jobs["jobs"][0]["attempt"], 1, "it cost nothing");
}

#[test]
fn a_key_that_expires_while_its_claim_waits_gets_no_job() {
    let test_server = TestServer::start();
    let (owner, _) = key(&test_server, json!({}));
    let ends = wire::format_time(SystemClock::new().read().wall + Duration::from_secs(4));
    let (thief, _) = key(&test_server, json!({"expiresAt": ends}));
    let (job_type, worker) = (fresh("type"), fresh("worker"));
    let job = thread::scope(|scope| {
        let waiting = scope.spawn(|| claim(&thief, &job_type, &worker, 30).send());
        wait_for_worker(&owner, &worker);
        wait_until("the key is over", || thief.get("/api/queues").send().status == 401);
        let job = submit(&owner, &job_type);
        waiting.join().unwrap().problem(401, "UNAUTHENTICATED");
        job
    });
    check_untouched(&owner, &job);
}

#[test]
fn an_empty_claim_answers_401_after_its_key_was_revoked() {
    let test_server = TestServer::start();
    let (owner, _) = key(&test_server, json!({}));
    let (thief, id) = key(&test_server, json!({}));
    let worker = fresh("worker");
    thread::scope(|scope| {
        let waiting = scope.spawn(|| claim(&thief, &fresh("type"), &worker, 3).send());
        wait_for_worker(&owner, &worker);
        revoke(&test_server, &id);
        waiting.join().unwrap().problem(401, "UNAUTHENTICATED");
    });
}

/// The head of the request comes with a valid key, its body after the key is revoked.
#[test]
fn a_body_after_its_key_was_revoked_submits_nothing() {
    check_late_body(Duration::from_millis(1_200));
}

/// However soon it comes.
#[test]
fn a_body_right_after_its_key_was_revoked_submits_nothing() {
    check_late_body(Duration::from_millis(300));
}

/// Sends a head, and after `pause` the end of its body, with a revocation in between.
#[track_caller]
fn check_late_body(pause: Duration) {
    let test_server = TestServer::start();
    let (owner, _) = key(&test_server, json!({}));
    let (thief, id) = key(&test_server, json!({}));
    let job_type = fresh("type");
    let ask = thief.post("/api/jobs").json(&json!({"jobType": job_type}));
    let bytes = ask.bytes();
    let mut slow = thief.connect().unwrap();
    slow.write(&bytes[..bytes.len() - 1]).unwrap();
    thread::sleep(pause);
    revoke(&test_server, &id);
    slow.write(&bytes[bytes.len() - 1..]).unwrap();
    slow.answer("POST").unwrap().problem(401, "UNAUTHENTICATED");
    let queue = owner.get(&format!("/api/queues/{job_type}")).send();
    queue.problem(404, "QUEUE_NOT_FOUND");
}

#[test]
fn a_status_wait_ends_with_401_when_its_key_is_revoked() {
    let test_server = TestServer::start();
    let (owner, _) = key(&test_server, json!({}));
    let (thief, id) = key(&test_server, json!({}));
    let job = submit(&owner, &fresh("type"));
    let path = format!("/api/jobs/{job}/status");
    thread::scope(|scope| {
        let waiting = scope.spawn(|| thief.get(&format!("{path}?wait=30")).send());
        let mut stream = thief.get(&format!("/api/jobs/{job}/events")).events();
        assert_eq!(stream.next().unwrap().event, "status");
        revoke(&test_server, &id);
        let admin = test_server.admin();
        assert_eq!(admin.post(&format!("/api/jobs/{job}/cancel")).send().status, 202);
        waiting.join().unwrap().problem(401, "UNAUTHENTICATED");
        let event = stream.next().unwrap();
        assert_eq!(event.event, "error");
        assert_eq!(event.data["errorCode"], "UNAUTHENTICATED");
    });
}
