//! The binary on PostgreSQL, from outside: one node, many nodes, and a database that fails.
//!
//! Tests share a server, and each has a schema of its own; tests that stop the server have one of
//! their own.

mod bouncer;
mod commands;
mod concurrent_start;
mod deadlocks;
mod hostile;
mod in_force;
mod killed;
mod life;
mod migrate;
mod outage;
mod start;
mod storm;
mod tls;

use crate::serve::{Answer, Client};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use test_postgres::Server;

/// The address of a new schema, as its owner, who is no superuser. The password is not needed, and
/// must never be printed.
fn fresh(server: &Server) -> String {
    schema_at(&server.address(), server)
}

/// The same through a proxy in front of the server.
fn schema_at(address: &str, server: &Server) -> String {
    let address = address.replace("consign@", &format!("consign:{PASSWORD}@"));
    let more = if address.contains('?') { '&' } else { '?' };
    format!("{address}{more}schema={}", server.fresh_schema_name())
}

const PASSWORD: &str = "hunter2";
const JOB_TYPE: &str = "parcel";

/// Retries are due at once.
const SETTINGS: &str = r#"
[types."parcel"]
max_attempts = 10
lost_workers_max = 10
backoff = { base = "20ms", factor = 1, max = "50ms", jitter = "none" }
"#;

fn job(key: &str) -> Value {
    json!({"jobType": JOB_TYPE, "subjectId": key, "payload": {"n": 1}, "idempotencyKey": key})
}

fn submit(client: &Client, key: &str) -> String {
    let answer = client.post("/api/jobs").json(&job(key)).send();
    text(&answer.ok(202)["jobId"])
}

fn claim(client: &Client, name: &str, max: usize, lease_seconds: u64) -> Vec<Value> {
    let claim_request = json!({
        "workerId": name, "claimId": name, "jobTypes": [JOB_TYPE], "max": max, "waitSeconds": 5,
        "leaseSeconds": lease_seconds,
    });
    let answer = client.post("/api/work/claim").json(&claim_request).send();
    answer.ok(200)["jobs"].as_array().unwrap().clone()
}

/// A report that a job succeeded.
fn done(job: &Value) -> Value {
    let item =
        json!({"jobId": job["jobId"], "token": job["lease"]["token"], "outcome": "completed"});
    json!({"items": [item]})
}

fn settle(client: &Client, job: &Value) -> Answer {
    client.post("/api/work/settle").json(&done(job)).send()
}

fn status(client: &Client, id: &str) -> Value {
    client.get(&format!("/api/jobs/{id}/status")).send().ok(200)
}

/// A whole life: submit, claim, settle, status.
fn live(client: &Client, key: &str) {
    let id = submit(client, key);
    let jobs = claim(client, &format!("worker of {key}"), 1, 30);
    assert_eq!(text(&jobs[0]["jobId"]), id);
    settle(client, &jobs[0]).ok(200);
    assert_eq!(status(client, &id)["status"], "Completed");
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).into()
}

/// Ends all loops of a test on drop, also when one thread panics: otherwise the other threads would
/// wait for ever.
struct Closing<'a>(&'a AtomicBool);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
