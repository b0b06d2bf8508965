//! §2: the same job submitted again.

use crate::serve::{Customer, customer::fresh, customer::id_of};
use serde_json::{Value, json};
use std::{collections::BTreeSet, thread};

#[test]
fn the_same_job_again_is_the_first_one() {
    let customer = Customer::new();
    let job = json!({"jobType": fresh("type"), "subjectId": "s", "payload": {"a": 1, "b": [2]}, "idempotencyKey": "k"});
    let first = customer.owner.post("/api/jobs").json(&job).send().ok(202);
    // Another order and another spacing are the same JSON; another correlation is the same job.
    let again = json!({"payload": {"b": [2], "a": 1}, "idempotencyKey": "k", "subjectId": "s",
        "jobType": job["jobType"], "correlationId": "other", "priority": 9});
    let second = customer.owner.post("/api/jobs").json(&again).send().ok(202);
    assert_eq!((&first["duplicate"], &second["duplicate"]), (&json!(false), &json!(true)));
    for field in ["jobId", "subjectId", "statusUrl", "correlationId"] {
        assert_eq!(first[field], second[field], "{field}");
    }
    let claimed = customer.claim(job["jobType"].as_str().unwrap());
    assert_eq!(claimed["jobId"], first["jobId"]);
    let third = customer.owner.post("/api/jobs").json(&job).send().ok(202);
    assert_eq!((&third["jobId"], &third["status"]), (&first["jobId"], &json!("Running")));
}

#[test]
fn another_job_under_a_key_is_refused() {
    let customer = Customer::new();
    let job =
        json!({"jobType": fresh("type"), "subjectId": "s", "payload": 1, "idempotencyKey": "k"});
    customer.owner.post("/api/jobs").json(&job).send().ok(202);
    for (field, value) in [("payload", json!(2)), ("subjectId", json!("t"))] {
        let mut other = job.clone();
        other[field] = value;
        let refused = customer.owner.post("/api/jobs").json(&other).send();
        refused.problem(422, "IDEMPOTENCY_KEY_REUSED");
    }
    // The key is unique within tenant and type, and nowhere else.
    let mut other = job.clone();
    other["jobType"] = json!(fresh("type"));
    assert_eq!(customer.owner.post("/api/jobs").json(&other).send().ok(202)["duplicate"], false);
    let neighbour = Customer::of(&customer.test_server);
    assert_eq!(neighbour.owner.post("/api/jobs").json(&job).send().ok(202)["duplicate"], false);
}

#[test]
fn a_key_may_come_in_the_header_with_or_without_quotes() {
    let customer = Customer::new();
    let job = json!({"jobType": fresh("type")});
    let ask = |key: &str, job: &Value| {
        customer.owner.post("/api/jobs").header("idempotency-key", key).json(job).send()
    };
    let first = ask("k-1", &job).ok(202);
    assert_eq!(ask("\"k-1\"", &job).ok(202)["jobId"], first["jobId"]);
    let mut own = job.clone();
    own["idempotencyKey"] = json!("k-1");
    assert_eq!(ask("k-1", &own).ok(202)["jobId"], first["jobId"]);
    ask("k-2", &own).problem(400, "INVALID_FIELD");
    let long = "x".repeat(1_000);
    let first = ask(&long, &job).ok(202);
    assert_eq!(ask(&long, &job).ok(202)["jobId"], first["jobId"], "also where its hash is kept");
}

#[test]
fn sixty_four_at_once_make_one_job() {
    let customer = Customer::new();
    let job = json!({"jobType": fresh("type"), "payload": {"n": 1}, "idempotencyKey": "one"});
    let answers: Vec<_> = thread::scope(|scope| {
        let ask = || customer.owner.post("/api/jobs").json(&job).send();
        let asked: Vec<_> = (0..64).map(|_| scope.spawn(ask)).collect();
        asked.into_iter().map(|asked| asked.join().unwrap().ok(202)).collect()
    });
    let ids: BTreeSet<String> = answers.iter().map(id_of).collect();
    let new = answers.iter().filter(|answer| answer["duplicate"] == false).count();
    assert_eq!((ids.len(), new), (1, 1));
    let job_type = job["jobType"].as_str().unwrap();
    let queue = customer.owner.get(&format!("/api/queues/{job_type}")).send().ok(200);
    assert_eq!(queue["queued"], 1);
}

/// A key is held until its job has ended and for the type's window after that; then it is free.
#[test]
fn a_key_outlives_its_job_by_the_window() {
    let customer = Customer::new();
    let job_type = fresh("type");
    let job = json!({"jobType": job_type, "idempotencyKey": "k"});
    let first = customer.submit(job.clone());
    let claimed = customer.claim(&job_type);
    customer.settle(&claimed, json!({"outcome": "completed"}));
    let again = customer.owner.post("/api/jobs").json(&job).send().ok(202);
    assert_eq!((&again["jobId"], &again["status"]), (&json!(first), &json!("Completed")));
    let short = fresh("type");
    customer.policy(&short, json!({"keyWindow": "1s"}));
    let job = json!({"jobType": short, "idempotencyKey": "k"});
    let first = customer.submit(job.clone());
    customer.settle(&customer.claim(&short), json!({"outcome": "completed"}));
    crate::serve::wait_until("the key is free", || customer.submit(job.clone()) != first);
}
