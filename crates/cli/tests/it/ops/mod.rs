//! What operators type: the real binary against the real server, for people and for programs.

mod keys;
mod migrate;
mod poison;
mod queues;
mod story;
mod types;

use crate::{client::Prompt, serve::House};
use serde_json::{Value, json};

/// Takes the jobs of a type that are due, as a worker of this name.
fn claim(house: &House, worker: &str, job_type: &str) -> Vec<Value> {
    let wish = json!({
        "workerId": worker, "claimId": format!("{worker} {job_type}"), "jobTypes": [job_type], "max": 100,
        "host": "machine-1",
    });
    let answer = house.admin().post("/api/work/claim").json(&wish).send().ok(200);
    answer["jobs"].as_array().unwrap().clone()
}

/// Hands jobs over and lets a worker find them unreadable: their ids.
fn poison(house: &House, prompt: &Prompt, job_type: &str, code: &str, count: usize) -> Vec<String> {
    let ids: Vec<String> =
        (0..count).map(|at| prompt.enqueues(&[job_type, "-s", &format!("order/{at}")])).collect();
    let items: Vec<Value> = claim(house, &format!("w-{code}"), job_type)
        .iter()
        .map(|job| {
            json!({
                "jobId": job["jobId"], "token": job["lease"]["token"], "outcome": "poisoned",
                "errorCode": code, "errorMessage": "there is no such page",
            })
        })
        .collect();
    assert_eq!(items.len(), count);
    house.admin().post("/api/work/settle").json(&json!({"items": items})).send().ok(200);
    ids
}
