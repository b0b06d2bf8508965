//! §2 and §6: parts of a job that complete once.

use crate::serve::{Customer, customer::fresh, customer::id_of, customer::lease_item};
use serde_json::{Value, json};

fn step(customer: &Customer, job: &Value, more: Value) -> Value {
    customer.owner.post("/api/work/steps").json(&lease_item(job, more)).send().ok(200)
}

#[test]
fn a_step_completes_once_over_all_attempts() {
    let customer = Customer::new();
    let job_type = fresh("type");
    let job = customer.running(&job_type);
    let begin = json!({"name": "charge", "action": "begin"});
    assert_eq!(step(&customer, &job, begin.clone())["state"], "new");
    assert_eq!(step(&customer, &job, begin.clone())["state"], "unfinished");
    let finish = json!({"name": "charge", "action": "finish", "result": {"id": 7}});
    let done = json!({"state": "done", "result": {"id": 7}});
    assert_eq!(step(&customer, &job, finish), done);
    step(&customer, &job, json!({"name": "mail", "action": "begin"}));
    customer.settle(&job, json!({"outcome": "failed", "retryAfterSeconds": 0}));
    let job = customer.claim(&job_type);
    assert_eq!(step(&customer, &job, begin.clone()), done);
    assert_eq!(
        step(&customer, &job, json!({"name": "mail", "action": "begin"}))["state"],
        "unfinished"
    );
    customer.settle(&job, json!({"outcome": "failed", "retryable": false}));
    let redrive = format!("/api/jobs/{}/redrive", id_of(&job));
    customer.owner.post(&redrive).send().ok(202);
    let job = customer.claim(&job_type);
    assert_eq!(step(&customer, &job, begin.clone()), done, "kept on redrive");
    customer.settle(&job, json!({"outcome": "failed", "retryable": false}));
    customer.owner.post(&redrive).json(&json!({"resetSteps": true})).send().ok(202);
    let job = customer.claim(&job_type);
    assert_eq!(step(&customer, &job, begin)["state"], "new", "unless they are reset");
}

#[test]
fn a_step_is_fenced() {
    let customer = Customer::new();
    let job_type = fresh("type");
    let old = customer.running(&job_type);
    customer.release(&old, json!({}));
    customer.claim(&job_type);
    let begin = lease_item(&old, json!({"name": "charge", "action": "begin"}));
    customer.owner.post("/api/work/steps").json(&begin).send().problem(409, "LEASE_LOST");
}

#[test]
fn a_step_has_limits() {
    let customer = Customer::new();
    let job = customer.running(&fresh("type"));
    let ask =
        |more: Value| customer.owner.post("/api/work/steps").json(&lease_item(&job, more)).send();
    ask(json!({"name": "x", "action": "finish"})).problem(409, "STEP_NOT_BEGUN");
    ask(json!({"name": "x", "action": "perhaps"})).problem(400, "INVALID_FIELD");
    ask(json!({"name": "", "action": "begin"})).problem(400, "INVALID_FIELD");
    ask(json!({"name": "x", "action": "begin"})).ok(200);
    let long = json!({"name": "x", "action": "finish", "result": "x".repeat(17 * 1024)});
    ask(long).problem(400, "INVALID_FIELD");
    ask(json!({"name": "x", "action": "finish", "result": "x".repeat(16 * 1024 - 2)})).ok(200);
}
