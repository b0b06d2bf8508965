//! §3: many jobs at once.

use crate::serve::{Customer, customer::fresh};
use serde_json::{Value, json};

fn queued(customer: &Customer, job_type: &str) -> u64 {
    let answer = customer.owner.get(&format!("/api/queues/{job_type}")).send();
    if answer.status == 404 { 0 } else { answer.ok(200)["queued"].as_u64().unwrap() }
}

#[test]
fn a_batch_is_taken_whole_or_not_at_all() {
    let customer = Customer::new();
    let job_type = fresh("type");
    let job = json!({"jobType": job_type});
    let batch = json!({"jobs": vec![job.clone(); 100]});
    let items = customer.owner.post("/api/jobs/batch").json(&batch).send().ok(202);
    let items = items["items"].as_array().unwrap();
    assert_eq!((items.len(), queued(&customer, &job_type)), (100, 100));
    assert!(items.iter().all(|item| item["statusUrl"].is_string() && item["status"] == "Queued"));
    let other = fresh("type");
    let mut jobs = vec![json!({"jobType": other}); 100];
    jobs[57] = json!({"jobType": other, "priority": 77});
    let refused = customer.owner.post("/api/jobs/batch").json(&json!({"jobs": jobs})).send();
    let problem = refused.problem(400, "INVALID_FIELD");
    assert_eq!(problem["errors"][0]["pointer"], "/jobs/57/priority");
    assert_eq!(queued(&customer, &other), 0, "nothing was stored");
}

#[test]
fn a_partial_batch_gives_each_job_a_fate_of_its_own() {
    let customer = Customer::new();
    let job_type = fresh("type");
    let jobs = json!([
        {"jobType": job_type, "idempotencyKey": "a", "payload": 1},
        {"jobType": "NOT A TYPE"},
        {"jobType": job_type, "idempotencyKey": "a", "payload": 1},
        {"jobType": job_type, "idempotencyKey": "a", "payload": 2},
        {"jobType": job_type, "runAt": "never"},
        {"jobType": job_type, "priority": "high"},
        5,
    ]);
    let answer = customer.owner.post("/api/jobs/batch?partial=true").json(&json!({"jobs": jobs}));
    let answer = answer.send().ok(207);
    let items: &Vec<Value> = answer["items"].as_array().unwrap();
    assert_eq!(items.len(), 7);
    assert_eq!((&items[0]["duplicate"], &items[2]["duplicate"]), (&json!(false), &json!(true)));
    assert_eq!(items[0]["jobId"], items[2]["jobId"]);
    let codes: Vec<&str> =
        [1, 3, 4, 5, 6].map(|at| items[at]["problem"]["errorCode"].as_str().unwrap()).to_vec();
    let wrong = "INVALID_FIELD";
    assert_eq!(codes, [wrong, "IDEMPOTENCY_KEY_REUSED", wrong, wrong, "MALFORMED_BODY"]);
    assert_eq!(items[1]["problem"]["status"], 400);
    assert_eq!(queued(&customer, &job_type), 1);
}

#[test]
fn a_batch_has_its_limits() {
    let customer = Customer::new();
    let job = json!({"jobType": fresh("type")});
    let ask = |jobs: Vec<Value>| {
        customer.owner.post("/api/jobs/batch").json(&json!({"jobs": jobs})).send()
    };
    ask(Vec::new()).problem(400, "INVALID_FIELD");
    ask(vec![job.clone(); 1_001]).problem(400, "INVALID_FIELD");
    assert_eq!(ask(vec![job.clone(); 1_000]).ok(202)["items"].as_array().unwrap().len(), 1_000);
    let header = customer.owner.post("/api/jobs/batch").header("idempotency-key", "k");
    header.json(&json!({"jobs": [job]})).send().problem(400, "INVALID_FIELD");
}
