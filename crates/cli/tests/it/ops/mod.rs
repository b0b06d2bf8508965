//! Commands of operators: the real binary against the real server, for people and for programs.

mod embedded;
mod keys;
mod migrate;
mod nodes;
mod poison;
mod queues;
mod story;
mod types;

use crate::{client::Prompt, serve::TestServer};
use serde_json::{Value, json};

/// Claims the due jobs of a type, as a worker of this name.
fn claim(test_server: &TestServer, worker: &str, job_type: &str) -> Vec<Value> {
    let claim_request = json!({
        "workerId": worker, "claimId": format!("{worker} {job_type}"), "jobTypes": [job_type], "max": 100,
        "host": "machine-1",
    });
    let answer = test_server.admin().post("/api/work/claim").json(&claim_request).send().ok(200);
    answer["jobs"].as_array().unwrap().clone()
}

/// Submits jobs that a worker then poisons, and returns their ids.
fn poison(
    test_server: &TestServer,
    prompt: &Prompt,
    job_type: &str,
    code: &str,
    count: usize,
) -> Vec<String> {
    let ids: Vec<String> =
        (0..count).map(|at| prompt.enqueues(&[job_type, "-s", &format!("order/{at}")])).collect();
    let items: Vec<Value> = claim(test_server, &format!("w-{code}"), job_type)
        .iter()
        .map(|job| {
            json!({
                "jobId": job["jobId"], "token": job["lease"]["token"], "outcome": "poisoned",
                "errorCode": code, "errorMessage": "there is no such page",
            })
        })
        .collect();
    assert_eq!(items.len(), count);
    test_server.admin().post("/api/work/settle").json(&json!({"items": items})).send().ok(200);
    ids
}
