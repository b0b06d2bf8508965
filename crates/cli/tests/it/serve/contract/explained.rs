//! §3: `explain`.

use crate::serve::{Customer, customer::fresh, customer::id_of};
use serde_json::json;

#[test]
fn explain_gives_each_reason_when_it_applies() {
    let customer = Customer::new();
    let job_type = fresh("type");
    let id = customer.queued(&job_type);
    assert_eq!(customer.reasons(&id), ["NO_LIVE_WORKER"]);
    let path = format!("/api/queues/{job_type}");
    customer.owner.post(&format!("{path}/pause")).send().ok(200);
    assert!(customer.claim_with(&job_type, json!({})).is_empty(), "now a worker is alive");
    assert_eq!(customer.reasons(&id), ["QUEUE_PAUSED"]);
    customer.owner.post(&format!("{path}/resume")).send().ok(200);
    assert_eq!(
        customer.reasons(&id),
        ["LIMIT_REACHED"],
        "it is next, and its worker has not asked since"
    );
    let later = customer.submit(json!({"jobType": job_type, "delaySeconds": 3600}));
    assert_eq!(customer.reasons(&later)[0], "NOT_DUE");
    let behind = customer.submit(json!({"jobType": job_type, "priority": 1}));
    assert_eq!(customer.reasons(&behind), ["BEHIND_OTHERS"]);
    let job = customer.claim(&job_type);
    assert_eq!((id_of(&job), customer.reasons(&id)), (id.clone(), vec!["RUNNING".into()]));
    customer.owner.post(&format!("/api/jobs/{id}/cancel")).send().ok(202);
    assert_eq!(customer.reasons(&id), ["RUNNING", "CANCEL_REQUESTED"]);
    customer.settle(&job, json!({"outcome": "cancelled"}));
    assert_eq!(customer.reasons(&id), ["ENDED"]);
    let job = customer.claim(&job_type);
    customer.settle(&job, json!({"outcome": "failed", "retryAfterSeconds": 3600}));
    assert_eq!(customer.reasons(&id_of(&job))[0], "RETRY_WAIT");
}

#[test]
fn a_reason_has_details_a_person_can_use() {
    let customer = Customer::new();
    let job_type = fresh("type");
    let later = customer.submit(json!({"jobType": job_type, "delaySeconds": 3600}));
    let explained = customer.owner.get(&format!("/api/jobs/{later}/explain")).send().ok(200);
    assert_eq!(explained["status"], "Queued");
    let reasons = explained["reasons"].as_array().unwrap();
    assert!(reasons.iter().all(|reason| !reason["detail"].as_str().unwrap().is_empty()));
    let due = reasons.iter().find(|reason| reason["code"] == "NOT_DUE").unwrap();
    assert_eq!(due["runAt"], customer.status(&later)["nextAttemptAt"]);
    let job = customer.running(&job_type);
    let explained =
        customer.owner.get(&format!("/api/jobs/{}/explain", id_of(&job))).send().ok(200);
    assert_eq!(explained["reasons"][0]["workerId"], "w1");
}
