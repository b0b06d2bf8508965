//! §3: the life of a job as it happens.

use crate::serve::{Customer, Event, customer::fresh, customer::id_of};
use serde_json::json;

fn transition_of(event: &Event) -> (u64, String) {
    let id = event.id.as_ref().unwrap().parse().unwrap();
    (id, event.data["status"].as_str().unwrap().into())
}

#[test]
fn an_event_stream_sends_each_transition_once_in_order() {
    let customer = Customer::new();
    let job_type = fresh("type");
    let id = customer.queued(&job_type);
    let mut events = customer.owner.get(&format!("/api/jobs/{id}/events")).events();
    assert_eq!(events.answer.header("cache-control"), Some("no-store"));
    let first = events.next().unwrap();
    assert_eq!((transition_of(&first), first.event.as_str()), ((1, "Queued".into()), "status"));
    assert_eq!(first.data, customer.status(&id), "the status shape");
    let job = customer.claim(&job_type);
    assert_eq!(transition_of(&events.next().unwrap()), (2, "Running".into()));
    customer.heartbeat(&job, json!({"progress": {"percent": 30}}));
    let progress = events.next().unwrap();
    assert_eq!(
        (transition_of(&progress).0, &progress.data["progress"]["percent"]),
        (2, &json!(30))
    );
    customer
        .settle(&job, json!({"outcome": "failed", "errorCode": "BUSY", "retryAfterSeconds": 0}));
    assert_eq!(transition_of(&events.next().unwrap()), (3, "Queued".into()));
    let job = customer.claim(&job_type);
    assert_eq!(transition_of(&events.next().unwrap()), (4, "Running".into()));
    customer.settle(&job, json!({"outcome": "completed"}));
    assert_eq!(transition_of(&events.next().unwrap()), (5, "Completed".into()));
    assert!(events.next().is_none(), "after the end there is nothing");
}

#[test]
fn a_reconnecting_client_receives_the_remaining_events() {
    let customer = Customer::new();
    let job_type = fresh("type");
    let id = customer.queued(&job_type);
    let path = format!("/api/jobs/{id}/events");
    let job = customer.claim(&job_type);
    customer.settle(&job, json!({"outcome": "failed", "retryAfterSeconds": 0}));
    let job = customer.claim(&job_type);
    customer.settle(&job, json!({"outcome": "completed"}));
    for seen in 0..5_u64 {
        let mut events =
            customer.owner.get(&path).header("last-event-id", &seen.to_string()).events();
        let rest: Vec<u64> =
            std::iter::from_fn(|| events.next()).map(|event| transition_of(&event).0).collect();
        assert_eq!(rest, (seen + 1..=5).collect::<Vec<_>>());
    }
    let over = customer.owner.get(&path).header("last-event-id", "5").send();
    assert_eq!(over.status, 204, "a browser does not come again");
    let wrong = customer.owner.get(&path).header("last-event-id", "x").send();
    wrong.problem(400, "INVALID_FIELD");
}

#[test]
fn a_stream_ends_with_the_key_that_opened_it() {
    let customer = Customer::new();
    let job_type = fresh("type");
    let id = customer.queued(&job_type);
    let grant = json!({"name": "short", "scopes": ["jobs:read"]});
    let made = customer.owner.post("/api/keys").json(&grant).send().ok(201);
    let reader = customer.test_server.anonymous().with_key(made["key"].as_str().unwrap());
    let mut events = reader.get(&format!("/api/jobs/{id}/events")).events();
    assert_eq!(transition_of(&events.next().unwrap()).0, 1);
    let path = format!("/api/keys/{}", made["id"].as_str().unwrap());
    assert_eq!(customer.owner.delete(&path).send().status, 204);
    customer.claim(&job_type);
    let last = events.next().unwrap();
    assert_eq!(
        (last.event.as_str(), &last.data["errorCode"]),
        ("error", &json!("UNAUTHENTICATED"))
    );
    assert!(events.next().is_none());
}

/// A new listener gets the current state.
#[test]
fn an_ended_job_tells_its_end() {
    let customer = Customer::new();
    let id = customer.poisoned(&fresh("type"));
    let mut events = customer.owner.get(&format!("/api/jobs/{id}/events")).events();
    assert_eq!(transition_of(&events.next().unwrap()), (3, "Poisoned".into()));
    assert!(events.next().is_none());
}

/// The stream of a job that is erased meanwhile ends with an error that says so.
#[test]
fn an_event_stream_of_an_erased_job_ends_with_an_error() {
    let customer = Customer::new();
    let job_type = fresh("type");
    let running = customer.running(&job_type);
    let id = id_of(&running);
    let mut events = customer.owner.get(&format!("/api/jobs/{id}/events")).events();
    assert_eq!(transition_of(&events.next().unwrap()), (2, "Running".into()));
    customer.settle(&running, json!({"outcome": "completed"}));
    customer.owner.delete(&format!("/api/jobs/{id}")).send();
    // It saw the end before the job was erased, or it says that the job cannot be found.
    let last = events.next().unwrap();
    let seen = last.event == "status" && last.data["status"] == "Completed";
    let broken = last.event == "error" && last.data["errorCode"] == "JOB_NOT_FOUND";
    assert!(seen || (broken && last.data["correlationId"].is_string()), "{last:?}");
    assert!(events.next().is_none());
}
