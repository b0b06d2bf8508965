//! §3 and §7: limits that an installation sets.

use crate::serve::{Customer, TestServer, customer::fresh, customer::lease_item};
use serde_json::json;
use std::sync::Arc;

#[test]
fn a_queue_that_is_full_takes_no_more() {
    let customer = Customer::new();
    let job_type = fresh("type");
    customer.policy(&job_type, json!({"maxQueued": 2}));
    customer.queued(&job_type);
    customer.queued(&job_type);
    let refused = customer.owner.post("/api/jobs").json(&json!({"jobType": job_type})).send();
    refused.problem(429, "QUEUE_FULL");
    assert!(refused.header("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
    let batch = json!({"jobs": [{"jobType": job_type}]});
    let refused = customer.owner.post("/api/jobs/batch").json(&batch).send();
    refused.problem(429, "QUEUE_FULL");
    assert!(refused.header("retry-after").is_some());
    customer.claim(&job_type);
    customer.queued(&job_type);
}

#[test]
fn only_declared_types_are_taken_where_that_is_wanted() {
    let test_server =
        Arc::new(TestServer::with("strict_types = true\n[types.declared]\nmax_attempts = 5\n"));
    let customer = Customer::of(&test_server);
    let refused = customer.owner.post("/api/jobs").json(&json!({"jobType": "other"})).send();
    refused.problem(422, "UNKNOWN_JOB_TYPE");
    let batch = json!({"jobs": [{"jobType": "declared"}, {"jobType": "other"}]});
    customer.owner.post("/api/jobs/batch").json(&batch).send().problem(422, "UNKNOWN_JOB_TYPE");
    let id = customer.submit(json!({"jobType": "declared"}));
    assert_eq!(customer.status(&id)["maxAttempts"], 5);
    test_server.admin().put("/api/types/other").json(&json!({})).send().ok(200);
    customer.submit(json!({"jobType": "other"}));
}

/// A client above its rate waits; a worker's reports never do.
#[test]
fn a_rate_holds_up_requests_but_no_reports() {
    let test_server = Arc::new(TestServer::with("[rate]\nper_second = 1\nburst = 20\n"));
    let customer = Customer::of(&test_server);
    let job_type = fresh("type");
    customer.queued(&job_type);
    let job = customer.claim(&job_type);
    let (mut limited, mut last) = (None, None);
    for _ in 0..200 {
        let answer = customer.owner.get("/api/queues").send();
        if answer.status == 429 {
            limited = Some(answer);
            break;
        }
        let number = |name: &str| answer.header(name).unwrap().parse::<u64>().unwrap();
        assert_eq!(number("ratelimit-limit"), 20);
        last = Some(number("ratelimit-remaining"));
    }
    let limited = limited.expect("no client may ask for ever");
    limited.problem(429, "RATE_LIMITED");
    assert!(limited.header("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
    assert_eq!((limited.header("ratelimit-remaining"), last), (Some("0"), Some(0)));
    for _ in 0..50 {
        assert_eq!(customer.heartbeat(&job, json!({}))["state"], "extended");
    }
    let step = lease_item(&job, json!({"name": "one", "action": "begin"}));
    customer.owner.post("/api/work/steps").json(&step).send().ok(200);
    assert_eq!(customer.settle(&job, json!({"outcome": "completed"}))["status"], "Completed");
    test_server.admin().get("/api/queues").send().ok(200);
    test_server.anonymous().get("/healthz").send().ok(200);
}

#[test]
fn payload_max_limits_the_size_of_a_payload() {
    let test_server = Arc::new(TestServer::with("payload_max = \"1KiB\"\n"));
    let customer = Customer::of(&test_server);
    let ask = |bytes: usize| {
        let job = json!({"jobType": "x", "payload": "x".repeat(bytes)});
        customer.owner.post("/api/jobs").json(&job).send()
    };
    ask(1_000).ok(202);
    ask(1_100).problem(413, "PAYLOAD_TOO_LARGE");
}
