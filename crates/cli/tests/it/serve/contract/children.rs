//! Parents that wait for their children, and cancels that reach them.

use crate::serve::{Customer, customer::fresh, customer::id_of, customer::lease_item, wait_until};
use serde_json::{Value, json};

fn children(customer: &Customer, parent: &Value) -> Value {
    let lease = lease_item(parent, json!({}));
    customer.owner.post("/api/work/children").json(&lease).send().ok(200)
}

fn submit_child(customer: &Customer, parent: &str, job_type: &str) -> String {
    let key = fresh("key");
    customer.submit(json!({"jobType": job_type, "parentId": parent, "idempotencyKey": key}))
}

#[test]
fn a_parent_goes_on_when_its_children_have_ended_and_reads_their_outcomes() {
    let customer = Customer::new();
    let (job_type, child_type) = (fresh("parent"), fresh("child"));
    let parent = customer.running(&job_type);
    let id = id_of(&parent);
    submit_child(&customer, &id, &child_type);
    submit_child(&customer, &id, &child_type);
    let until = json!({"until": "childrenEnded"});
    assert_eq!(customer.release(&parent, until.clone())["status"], "Queued");
    assert_eq!(customer.status(&id)["nextAttemptAt"], Value::Null);
    assert_eq!(customer.reasons(&id), ["WAITING_FOR_CHILDREN"]);
    let first = customer.claim(&child_type);
    customer.settle(&first, json!({"outcome": "completed", "result": {"pages": 7}}));
    assert!(customer.claim_with(&job_type, json!({})).is_empty(), "one is live");
    let second = customer.claim(&child_type);
    let failed = json!({"outcome": "failed", "retryable": false, "errorCode": "NO_INK"});
    customer.settle(&second, failed);
    let parent = customer.claim(&job_type);
    assert_eq!((id_of(&parent), &parent["attempt"]), (id, &json!(1)));
    let answer = children(&customer, &parent);
    assert_eq!(answer["nextCursor"], Value::Null);
    let outcome = |child: &Value| {
        let found = answer["items"].as_array().unwrap().iter().find(|it| id_of(it) == id_of(child));
        let found = found.unwrap();
        (found["status"].clone(), found["result"].clone(), found["errorCode"].clone())
    };
    assert_eq!(outcome(&first), (json!("Completed"), json!({"pages": 7}), Value::Null));
    assert_eq!(outcome(&second), (json!("Failed"), Value::Null, json!("NO_INK")));
    customer.settle(&parent, json!({"outcome": "completed"}));
    let stale = lease_item(&parent, json!({}));
    customer.owner.post("/api/work/children").json(&stale).send().problem(409, "LEASE_LOST");
}

#[test]
fn a_wait_for_children_is_said_in_one_way() {
    let customer = Customer::new();
    let parent = customer.running(&fresh("parent"));
    for wrong in [
        json!({"until": "tomorrow"}),
        json!({"until": "childrenEnded", "delaySeconds": 5}),
        json!({"until": "childrenEnded", "started": false}),
    ] {
        let answer = customer.release(&parent, wrong);
        assert_eq!(answer["problem"]["errorCode"], "INVALID_FIELD", "{answer}");
    }
    let none = customer.release(&parent, json!({"until": "childrenEnded"}));
    assert_eq!(none["status"], "Queued", "without children, it is due again at once");
}

#[test]
fn a_cancel_reaches_all_live_descendants() {
    let customer = Customer::new();
    let job_type = fresh("type");
    let parent = customer.queued(&job_type);
    let child = submit_child(&customer, &parent, &job_type);
    let ended = submit_child(&customer, &parent, &job_type);
    customer.owner.post(&format!("/api/jobs/{ended}/cancel")).send().ok(202);
    let grandchild = submit_child(&customer, &ended, &job_type);
    let spared = customer.queued(&job_type);
    let cancel = format!("/api/jobs/{parent}/cancel");
    let answer = customer.owner.post(&cancel).json(&json!({"cascade": true})).send().ok(202);
    assert_eq!(answer["status"], "Cancelled");
    assert_eq!(answer["descendants"], json!({"cancelled": 2, "more": false}));
    for id in [&child, &grandchild] {
        wait_until("it is cancelled", || customer.status(id)["status"] == "Cancelled");
    }
    assert_eq!(customer.status(&spared)["status"], "Queued");
    let again = customer.owner.post(&cancel).json(&json!({"cascade": true})).send().ok(202);
    assert_eq!(again["descendants"]["cancelled"], 0);
    let plain = customer.owner.post(&cancel).send().ok(202);
    assert!(plain.get("descendants").is_none(), "{plain}");
}
