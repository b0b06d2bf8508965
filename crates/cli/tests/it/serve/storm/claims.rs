//! A claim that is cut off before its answer costs the job nothing.

use crate::serve::{Customer, customer::fresh, wait_for, wait_until};
use serde_json::{Value, json};

/// Each is a race between the client that closes its connection and the server that answers.
const TIMES: usize = 25;

/// Claims a job and closes the connection.
fn claim_and_hang_up(customer: &Customer, job_type: &str, wait_seconds: u32) {
    let claim_request = json!({
        "workerId": "gone", "claimId": fresh("gone"), "jobTypes": [job_type],
        "waitSeconds": wait_seconds, "leaseSeconds": 600,
    });
    let ask = customer.owner.post("/api/work/claim").json(&claim_request);
    customer.owner.connect().unwrap().send_and_close(&ask.bytes()).unwrap();
}

/// The first worker that claims gets the job, in its first attempt.
#[track_caller]
fn is_untouched(customer: &Customer, job_type: &str, id: &str) {
    let claimed: Value = wait_for("the job is there for the next worker", || {
        customer.claim_with(job_type, json!({"waitSeconds": 1})).pop()
    });
    assert_eq!(
        (claimed["jobId"].as_str(), &claimed["attempt"]),
        (Some(id), &json!(1)),
        "{claimed}"
    );
    let settled = customer.settle(&claimed, json!({"outcome": "completed"}));
    assert_eq!(settled["status"], "Completed", "{settled}");
}

#[test]
fn a_client_that_disconnects_while_waiting_leases_no_job() {
    let customer = Customer::new();
    for _ in 0..TIMES {
        let job_type = fresh("type");
        claim_and_hang_up(&customer, &job_type, 60);
        let id = customer.queued(&job_type);
        is_untouched(&customer, &job_type, &id);
    }
}

#[test]
fn a_client_that_disconnects_before_the_answer_leases_no_job() {
    let customer = Customer::new();
    for _ in 0..TIMES {
        let job_type = fresh("type");
        let id = customer.queued(&job_type);
        claim_and_hang_up(&customer, &job_type, 0);
        is_untouched(&customer, &job_type, &id);
    }
}

#[test]
fn a_worker_that_lost_its_answer_gets_the_same_leases_under_the_same_name() {
    let customer = Customer::new();
    let job_type = fresh("type");
    let ids: Vec<String> = (0..3).map(|_| customer.queued(&job_type)).collect();
    let claim_request = json!({"claimId": "one-name", "max": 2});
    let first = customer.claim_with(&job_type, claim_request.clone());
    let again = customer.claim_with(&job_type, claim_request.clone());
    let tokens = |jobs: &[Value]| -> Vec<Value> {
        jobs.iter().map(|job| job["lease"]["token"].clone()).collect()
    };
    assert_eq!((first.len(), tokens(&first)), (2, tokens(&again)));
    for job in &first {
        customer.settle(job, json!({"outcome": "completed"}));
    }
    wait_until("the name is free for the rest", || {
        let rest = customer.claim_with(&job_type, claim_request.clone());
        rest.iter().any(|job| job["jobId"] == ids[2].as_str())
    });
}
