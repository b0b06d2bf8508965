//! §2: the table of states, walked by a worker that does what the test says.

use crate::serve::{Customer, customer::fresh, customer::id_of};
use serde_json::{Value, json};

/// The transitions of a job, from its history.
fn path(customer: &Customer, id: &str) -> Vec<String> {
    let rows = customer.history(id);
    let numbers: Vec<u64> = rows.iter().map(|row| row["seq"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=rows.len() as u64).collect::<Vec<_>>(), "without gaps");
    for pair in rows.windows(2) {
        assert_eq!(pair[0]["to"], pair[1]["from"], "each goes on from the last");
    }
    rows.iter().map(|row| row["to"].as_str().unwrap().into()).collect()
}

#[test]
fn a_job_succeeds() {
    let customer = Customer::new();
    let job = customer.running(&fresh("type"));
    let id = id_of(&job);
    assert_eq!((&job["status"], &job["attempt"]), (&json!("Running"), &json!(1)));
    let ending = json!({"outcome": "completed", "message": "well", "result": {"n": 7}, "resultUrl": "https://x.example/1"});
    assert_eq!(customer.settle(&job, ending), json!({"jobId": id, "status": "Completed"}));
    let status = customer.status(&id);
    assert_eq!((&status["message"], &status["result"]), (&json!("well"), &json!({"n": 7})));
    assert_eq!(status["resultUrl"], "https://x.example/1");
    assert!(status["completedAt"].is_string() && status["errorCode"].is_null());
    assert_eq!(path(&customer, &id), ["Queued", "Running", "Completed"]);
}

#[test]
fn a_failure_for_good_ends_the_job_at_once() {
    let customer = Customer::new();
    let job = customer.running(&fresh("type"));
    let ending = json!({"outcome": "failed", "retryable": false, "errorCode": "NO_SUCH_USER", "errorMessage": "who?"});
    assert_eq!(customer.settle(&job, ending)["status"], "Failed");
    let status = customer.status(&id_of(&job));
    assert_eq!(
        (&status["errorCode"], &status["errorMessage"]),
        (&json!("NO_SUCH_USER"), &json!("who?"))
    );
    assert_eq!(path(&customer, &id_of(&job)), ["Queued", "Running", "Failed"]);
}

#[test]
fn a_failure_is_tried_again_until_the_attempts_are_spent() {
    let customer = Customer::new();
    let job_type = fresh("type");
    let id = customer.submit(json!({"jobType": job_type, "maxAttempts": 3}));
    for attempt in 1..=3 {
        let job = customer.claim(&job_type);
        assert_eq!((id_of(&job), &job["attempt"]), (id.clone(), &json!(attempt)));
        let ending = json!({"outcome": "failed", "errorCode": "BUSY", "retryAfterSeconds": 0});
        let expected = if attempt < 3 { "Queued" } else { "Poisoned" };
        assert_eq!(customer.settle(&job, ending)["status"], expected);
    }
    let status = customer.status(&id);
    assert_eq!((&status["status"], &status["errorCode"]), (&json!("Poisoned"), &json!("BUSY")));
    assert_eq!((&status["attempt"], &status["maxAttempts"]), (&json!(3), &json!(3)));
    let expected = ["Queued", "Running", "Queued", "Running", "Queued", "Running", "Poisoned"];
    assert_eq!(path(&customer, &id), expected);
    let poison = customer.owner.get(&format!("/api/poison?jobType={job_type}")).send().ok(200);
    assert_eq!(poison["counts"], json!({"BUSY": 1}));
    assert_eq!(poison["items"][0]["jobId"], id.as_str());
}

/// The last error is forgotten when the work succeeds.
#[test]
fn a_success_after_a_failure_shows_no_error() {
    let customer = Customer::new();
    let job_type = fresh("type");
    let job = customer.running(&job_type);
    customer
        .settle(&job, json!({"outcome": "failed", "errorCode": "BUSY", "retryAfterSeconds": 0}));
    let waiting = customer.status(&id_of(&job));
    assert_eq!(
        (&waiting["errorCode"], waiting["nextAttemptAt"].is_string()),
        (&json!("BUSY"), true)
    );
    let first_start = waiting["startedAt"].clone();
    let job = customer.claim(&job_type);
    customer.settle(&job, json!({"outcome": "completed"}));
    let status = customer.status(&id_of(&job));
    assert!(status["errorCode"].is_null() && status["errorMessage"].is_null(), "{status}");
    assert_eq!((&status["startedAt"], &status["attempt"]), (&first_start, &json!(2)));
}

#[test]
fn a_retry_waits_as_long_as_the_handler_asked() {
    let customer = Customer::new();
    let job = customer.running(&fresh("type"));
    customer.settle(&job, json!({"outcome": "failed", "retryAfterSeconds": 3600}));
    let status = customer.status(&id_of(&job));
    assert_eq!(
        (&status["status"], &status["errorCode"]),
        (&json!("Queued"), &json!("HANDLER_FAILED"))
    );
    assert!(status["nextAttemptAt"].as_str() > status["startedAt"].as_str());
    assert!(customer.claim_with(job["jobType"].as_str().unwrap(), json!({})).is_empty());
    assert_eq!(customer.reasons(&id_of(&job))[0], "RETRY_WAIT");
}

#[test]
fn an_unreadable_message_is_poison_at_once() {
    let customer = Customer::new();
    let job = customer.running(&fresh("type"));
    assert_eq!(customer.settle(&job, json!({"outcome": "poisoned"}))["status"], "Poisoned");
    assert_eq!(customer.status(&id_of(&job))["errorCode"], "MESSAGE_UNREADABLE");
}

#[test]
fn a_waiting_job_is_cancelled_at_once() {
    let customer = Customer::new();
    for way in ["POST", "DELETE"] {
        let job_type = fresh("type");
        let id = customer.queued(&job_type);
        let path = if way == "POST" { "cancel" } else { "status" };
        let answer = customer.owner.ask(way, &format!("/api/jobs/{id}/{path}")).send().ok(202);
        assert_eq!((&answer["jobId"], &answer["status"]), (&json!(id), &json!("Cancelled")));
        assert!(customer.claim_with(&job_type, json!({})).is_empty());
        let again = customer.owner.ask(way, &format!("/api/jobs/{id}/{path}")).send().ok(202);
        assert_eq!(again["status"], "Cancelled", "asked twice, answered alike");
    }
}

#[test]
fn a_worker_learns_of_a_cancel_and_acknowledges_it() {
    let customer = Customer::new();
    let job = customer.running(&fresh("type"));
    let id = id_of(&job);
    let asked = customer.owner.post(&format!("/api/jobs/{id}/cancel")).send().ok(202);
    assert_eq!((&asked["status"], &asked["cancelRequested"]), (&json!("Running"), &json!(true)));
    assert_eq!(customer.reasons(&id), ["RUNNING", "CANCEL_REQUESTED"]);
    assert_eq!(customer.heartbeat(&job, json!({}))["state"], "cancelRequested");
    assert_eq!(customer.settle(&job, json!({"outcome": "cancelled"}))["status"], "Cancelled");
    assert_eq!(customer.heartbeat(&job, json!({}))["state"], "ended");
}

/// A success after the cancel request stands. An attempt that fails is not retried.
#[test]
fn a_cancel_does_not_undo_a_success_but_ends_a_failure() {
    let customer = Customer::new();
    for (ending, expected) in [
        (json!({"outcome": "completed"}), "Completed"),
        (json!({"outcome": "failed", "errorCode": "BUSY"}), "Cancelled"),
    ] {
        let job = customer.running(&fresh("type"));
        customer.owner.post(&format!("/api/jobs/{}/cancel", id_of(&job))).send().ok(202);
        assert_eq!(customer.settle(&job, ending)["status"], expected);
    }
    let job = customer.running(&fresh("type"));
    customer.owner.post(&format!("/api/jobs/{}/cancel", id_of(&job))).send().ok(202);
    assert_eq!(customer.release(&job, json!({}))["status"], "Cancelled");
}

#[test]
fn a_job_that_is_not_started_in_time_expires() {
    let customer = Customer::new();
    let job_type = fresh("type");
    let clock = customer.submit(json!({"jobType": job_type, "delaySeconds": 1}));
    let in_a_second = customer.status(&clock)["nextAttemptAt"].clone();
    let id = customer.submit(json!({"jobType": fresh("type"), "expiresAt": in_a_second}));
    let status = customer.wait_for_status(&id, "Cancelled");
    assert_eq!(status["errorCode"], "JOB_EXPIRED");
    let redriven = customer.owner.post(&format!("/api/jobs/{id}/redrive")).send().ok(202);
    assert_eq!(redriven["status"], "Queued");
    let full_job = customer.owner.get(&format!("/api/jobs/{id}")).send().ok(200);
    assert!(full_job["expiresAt"].is_null(), "it is cleared");
}

#[test]
fn a_handler_that_takes_too_long_is_timed_out() {
    let customer = Customer::new();
    let job_type = fresh("type");
    customer.policy(&job_type, json!({"timeout": "1s", "maxAttempts": 1, "lease": "1s"}));
    let job = customer.running(&job_type);
    let beat = customer.heartbeat(&job, json!({}));
    assert_eq!(beat["state"], "extended");
    let status = customer.wait_for_status(&id_of(&job), "Poisoned");
    assert_eq!(status["errorCode"], "HANDLER_TIMEOUT");
    let late = customer.settle(&job, json!({"outcome": "completed"}));
    assert_eq!(late["problem"]["errorCode"], "LEASE_LOST", "{late}");
}

#[test]
fn a_lease_that_runs_out_uses_up_the_attempt() {
    let customer = Customer::new();
    let job_type = fresh("type");
    customer
        .policy(&job_type, json!({"backoff": {"base": "1ms", "max": "1ms"}, "lostWorkersMax": 2}));
    let id = customer.submit(json!({"jobType": job_type, "maxAttempts": 9}));
    let lease = json!({"leaseSeconds": 1, "workerId": "lost-one"});
    let job = customer.claim_with(&job_type, lease.clone()).pop().unwrap();
    let waiting = customer.wait_for_status(&id, "Queued");
    assert_eq!((&waiting["errorCode"], &waiting["attempt"]), (&json!("LEASE_EXPIRED"), &json!(1)));
    let late = customer.settle(&job, json!({"outcome": "completed"}));
    assert_eq!(late["problem"]["errorCode"], "LEASE_LOST");
    assert_eq!(late["problem"]["status"], 409);
    assert_eq!(customer.heartbeat(&job, json!({}))["state"], "lost");
    crate::serve::wait_until("it is claimed again", || {
        !customer.claim_with(&job_type, lease.clone()).is_empty()
    });
    let status = customer.wait_for_status(&id, "Poisoned");
    assert_eq!((&status["errorCode"], &status["attempt"]), (&json!("WORKER_LOST"), &json!(2)));
    let workers: Vec<Value> =
        customer.history(&id).iter().map(|row| row["workerId"].clone()).collect();
    assert!(workers.iter().filter(|worker| **worker == "lost-one").count() >= 2, "{workers:?}");
}

#[test]
fn a_release_over_http_costs_no_attempt() {
    let customer = Customer::new();
    let job_type = fresh("type");
    let job = customer.running(&job_type);
    assert_eq!(customer.release(&job, json!({}))["status"], "Queued");
    let job = customer.claim(&job_type);
    assert_eq!(job["attempt"], 1, "it was given back");
    assert_eq!(customer.release(&job, json!({"delaySeconds": 3600}))["status"], "Queued");
    assert_eq!(customer.reasons(&id_of(&job))[0], "NOT_DUE");
    assert!(customer.claim_with(&job_type, json!({})).is_empty());
}

#[test]
fn a_job_released_too_often_is_poisoned() {
    let customer = Customer::new();
    let job_type = fresh("type");
    let id = customer.submit(json!({"jobType": job_type, "maxAttempts": 1}));
    for _ in 0..20 {
        assert_eq!(customer.release(&customer.claim(&job_type), json!({}))["status"], "Queued");
    }
    assert_eq!(customer.release(&customer.claim(&job_type), json!({}))["status"], "Poisoned");
    assert_eq!(customer.status(&id)["errorCode"], "RELEASE_LIMIT");
}

#[test]
fn a_redriven_job_has_a_new_life_and_an_old_history() {
    let customer = Customer::new();
    let job_type = fresh("type");
    let id = customer.poisoned(&job_type);
    let path_of = format!("/api/jobs/{id}/redrive");
    let again = customer.owner.post(&path_of).json(&json!({"maxAttempts": 7})).send().ok(202);
    assert_eq!((&again["jobId"], &again["status"]), (&json!(id), &json!("Queued")));
    assert_eq!((&again["attempt"], &again["redriveCount"]), (&json!(0), &json!(1)));
    assert_eq!((&again["maxAttempts"], &again["startedAt"]), (&json!(7), &json!(null)));
    let job = customer.claim(&job_type);
    customer.settle(&job, json!({"outcome": "completed"}));
    let expected = ["Queued", "Running", "Poisoned", "Queued", "Running", "Completed"];
    assert_eq!(path(&customer, &id), expected);
    customer.owner.post(&path_of).send().problem(409, "NOT_REDRIVABLE");
    let running = customer.running(&job_type);
    let refused = customer.owner.post(&format!("/api/jobs/{}/redrive", id_of(&running))).send();
    refused.problem(409, "NOT_ENDED");
}

#[test]
fn a_discarded_job_leaves_the_poison_queue_but_is_kept() {
    let customer = Customer::new();
    let job_type = fresh("type");
    let id = customer.poisoned(&job_type);
    let body = json!({"jobIds": [id]});
    let matched = customer.owner.post("/api/poison/discard").json(&body).send().ok(202);
    assert_eq!(matched["matched"], 1);
    let poison = customer.owner.get(&format!("/api/poison?jobType={job_type}")).send().ok(200);
    assert_eq!((poison["items"].as_array().unwrap().len(), &poison["counts"]), (0, &json!({})));
    let full_job = customer.owner.get(&format!("/api/jobs/{id}")).send().ok(200);
    assert!(full_job["status"] == "Poisoned" && full_job["discardedAt"].is_string(), "{full_job}");
    assert_eq!(customer.status(&id)["discardedAt"], full_job["discardedAt"]);
    let path = format!("/api/jobs?filter=jobType%20eq%20%27{job_type}%27");
    let listed = customer.owner.get(&path).send();
    assert_eq!(listed.ok(200)["items"][0]["discardedAt"], full_job["discardedAt"]);
}

#[test]
fn an_ended_job_is_erased_and_gone() {
    let customer = Customer::new();
    let id = customer.completed(&fresh("type"));
    let path_of = format!("/api/jobs/{id}");
    let answer = customer.owner.delete(&path_of).send();
    assert_eq!((answer.status, answer.body.len()), (204, 0));
    for path in ["", "/status", "/history", "/explain", "/events"] {
        customer.owner.get(&format!("{path_of}{path}")).send().problem(404, "JOB_NOT_FOUND");
    }
    let queued = customer.queued(&fresh("type"));
    customer.owner.delete(&format!("/api/jobs/{queued}")).send().problem(409, "NOT_ENDED");
}
