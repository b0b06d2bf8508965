//! Workers that record the answers to their reports.

use super::{
    BAD, TestRandom,
    client_log::{ClientLog, item_result, text},
    named,
};
use serde_json::{Value, json};

/// Few at a time, so that there are many claims.
const MAX: usize = 6;
/// Shorter than the storm: another worker gets a forgotten job.
const LEASE_SECONDS: u64 = 3;

pub(crate) fn work(number: usize, client_log: &ClientLog) {
    let (mut random, mut claims) = (TestRandom::new(100 + number), 0);
    let worker = named("worker", number, 0);
    while !client_log.is_over() {
        claims += 1;
        let claim = named("claim", number, claims);
        let ask = client_log.claim_ask(
            client_log.node_client(number),
            &worker,
            &claim,
            MAX,
            LEASE_SECONDS,
        );
        if random.once_in(6) {
            // The answer is lost on the way. The same claim id gets the same leases or others, at
            // no cost for the jobs.
            client_log.cut(&ask);
            client_log.records().counts.cut_claims += 1;
        }
        let mut answer = client_log.try_ask(ask.clone());
        while answer.is_err() && !client_log.is_over() && !random.once_in(10) {
            answer = client_log.try_ask(ask.clone().at(client_log.any_client()));
        }
        let Ok(answer) = answer else { continue };
        let jobs = client_log.note_claim(&answer);
        if random.once_in(2) {
            heartbeat(client_log, &worker, &jobs);
        }
        for job in &jobs {
            end(client_log, &mut random, job);
        }
    }
}

fn heartbeat(client_log: &ClientLog, worker: &str, jobs: &[Value]) {
    let leases: Vec<Value> = jobs
        .iter()
        .map(|job| json!({"jobId": job["jobId"], "token": job["lease"]["token"]}))
        .collect();
    if leases.is_empty() {
        return;
    }
    let ask = client_log.any_client().post("/api/work/heartbeat");
    let ask = ask.json(&json!({"workerId": worker, "leases": leases}));
    if let Ok(answer) = client_log.try_ask(ask) {
        let states = answer.ok(200);
        let known = ["extended", "cancelRequested", "lost", "ended"];
        for lease in states["leases"].as_array().unwrap() {
            assert!(known.contains(&lease["state"].as_str().unwrap()), "{lease}");
        }
        client_log.records().counts.heartbeats += 1;
    }
}

fn end(client_log: &ClientLog, random: &mut TestRandom, job: &Value) {
    if random.once_in(25) {
        return release(client_log, job);
    }
    let is_bad = job["subjectId"].as_str().unwrap().starts_with(BAD);
    let ending = if is_bad || random.once_in(12) {
        json!({"outcome": "failed", "errorCode": "TRY_AGAIN", "retryAfterSeconds": 0})
    } else if random.once_in(30) {
        json!({"outcome": "failed", "retryable": false, "errorCode": "HOPELESS"})
    } else {
        json!({"outcome": "completed", "message": "done"})
    };
    let first = client_log.settle(job, &ending);
    if random.once_in(10) {
        assert_eq!(
            client_log.settle(job, &ending),
            first,
            "a report is answered as the first time"
        );
    }
}

/// Gives the job back, and repeats that, because the first request may have taken effect without an
/// answer.
fn release(client_log: &ClientLog, job: &Value) {
    let item = json!({"jobId": job["jobId"], "token": job["lease"]["token"], "delaySeconds": 0});
    let ask = client_log.any_client().post("/api/work/release").json(&json!({"items": [item]}));
    let answer = client_log.ask(&ask).ok(200);
    if let Err(code) = item_result(&answer["items"][0]) {
        assert!(["LEASE_LOST", "ALREADY_ENDED"].contains(&code.as_str()), "{answer}");
    }
    assert_eq!(text(&answer["items"][0]["jobId"]), text(&job["jobId"]));
    client_log.records().counts.releases += 1;
}
