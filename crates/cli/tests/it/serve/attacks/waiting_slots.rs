//! One credential, or one signed address, opens as many waits as it can: it gets its share of the
//! places, and other callers wait as before.

use crate::serve::{
    Answer, Ask, Connection, Customer, Events, TestServer, WAIT_MAX, customer::fresh, wait_for,
    wait_until,
};
use serde_json::json;
use std::sync::Arc;

const SMALL: &str = "[limits]\nwaiting = 7\nwaiting_per_principal = 4\nwaiting_per_job = 2\n";

/// Sends a request and leaves it open.
fn open(customer: &Customer, ask: &Ask) -> Connection {
    let mut connection = customer.owner.connect().unwrap();
    connection.write(&ask.bytes()).unwrap();
    connection
}

/// Opens a stream, or returns why there is no place for it.
fn stream(ask: Ask) -> Result<Events, String> {
    let refused = |no: Answer| no.problem(503, "OVERLOADED")["detail"].as_str().unwrap().to_owned();
    let mut events = ask.try_events().map_err(refused)?;
    events.next().expect("it tells how things stand");
    Ok(events)
}

#[test]
fn one_signed_address_cannot_take_all_places() {
    let test_server = Arc::new(TestServer::with(SMALL));
    let (customer, neighbour) = (Customer::of(&test_server), Customer::of(&test_server));
    let job = json!({"jobType": "email"});
    let submit = |customer: &Customer| {
        let taken = customer.owner.post("/api/jobs?withSignedUrl=true").json(&job).send().ok(202);
        let events = |url: &str| url.replace("/status?", "/events?");
        (
            taken["jobId"].as_str().unwrap().to_owned(),
            events(taken["signedStatusUrl"].as_str().unwrap()),
        )
    };
    let anonymous = customer.test_server.anonymous();
    let (id, signed) = submit(&customer);
    let mut streams = Vec::new();
    for _ in 0..2 {
        streams.push(stream(anonymous.get(&signed)).expect("there is a place"));
    }
    let refusal = stream(anonymous.get(&signed)).err().expect("its share is used up");
    assert!(refusal.contains("limits.waiting_per_job"), "{refusal}");
    // With any address: the share belongs to the job.
    let own = format!("/api/jobs/{id}/events");
    let refusal = stream(customer.owner.get(&own)).err().expect("its share is used up");
    assert!(refusal.contains("limits.waiting_per_job"), "{refusal}");
    // All signed addresses of a tenant together have the share of one principal.
    let (_, second) = submit(&customer);
    for _ in 0..2 {
        streams.push(stream(anonymous.get(&second)).expect("there is a place"));
    }
    let (third_id, third) = submit(&customer);
    let refusal = stream(anonymous.get(&third)).err().expect("the share is used up");
    assert!(refusal.contains("limits.waiting_per_principal"), "{refusal}");
    // Those of another tenant have a share of their own, and so do credentials.
    let (_, of_neighbour) = submit(&neighbour);
    streams.push(stream(anonymous.get(&of_neighbour)).expect("there is a place"));
    let own = format!("/api/jobs/{third_id}/events");
    streams.push(stream(customer.owner.get(&own)).expect("there is a place"));
    // A wait without a place is answered at once with the current status.
    let wait = format!("/api/jobs/{id}/status?wait=60");
    let at_once = customer.owner.get(&wait).within(WAIT_MAX).send().ok(200);
    assert_eq!(at_once["status"], "Queued");
    // A closed stream frees its place.
    streams.clear();
    wait_for("a place is free again", || stream(anonymous.get(&signed)).ok());
}

#[test]
fn one_worker_key_cannot_take_all_places() {
    let customer = Customer::of(&Arc::new(TestServer::with(SMALL)));
    let claim = |worker: &str| {
        customer.owner.post("/api/work/claim").json(&json!({
            "workerId": worker, "claimId": fresh("claim"), "jobTypes": ["email"], "waitSeconds": 60
        }))
    };
    let waiting: Vec<Connection> =
        (0..4).map(|number| open(&customer, &claim(&format!("w{number}")))).collect();
    wait_until("all of them wait", || {
        let workers = customer.owner.get("/api/workers").send().ok(200);
        workers["items"].as_array().unwrap().len() == waiting.len()
    });
    let refused = claim("one-more").send();
    let problem = refused.problem(503, "OVERLOADED");
    assert!(problem["detail"].as_str().unwrap().contains("limits.waiting_per_principal"));
    assert!(refused.header("retry-after").is_some());
    // Another key waits as before, and a claim that may not wait still gets jobs that are there.
    let other = customer.client(json!({"scopes": ["jobs:read"]}));
    let id = customer.submit(json!({"jobType": "scan"}));
    stream(other.get(&format!("/api/jobs/{id}/events"))).expect("there is a place");
    let now = json!({
        "workerId": "one-more", "claimId": fresh("claim"), "jobTypes": ["scan"], "waitSeconds": 60
    });
    let claimed = customer.owner.post("/api/work/claim").json(&now).send().ok(200);
    assert_eq!(claimed["jobs"].as_array().unwrap().len(), 1);
    drop(waiting);
}

/// A client that resumes a stream after progress without a transition gets the progress.
#[test]
fn a_resumed_stream_tells_the_progress_that_it_missed() {
    let customer = Customer::new();
    let job = customer.running(&fresh("type"));
    let id = job["jobId"].as_str().unwrap();
    let resume = |seen: &str| {
        customer.owner.get(&format!("/api/jobs/{id}/events")).header("last-event-id", seen).events()
    };
    // Nothing was missed: the first event is the next change.
    let mut nothing_missed = resume("2");
    customer.heartbeat(&job, json!({"progress": {"percent": 30, "note": "a third"}}));
    let next = nothing_missed.next().unwrap();
    assert_eq!((next.id.as_deref(), &next.data["progress"]["percent"]), (Some("2"), &json!(30)));
    // Progress was made meanwhile, without a transition.
    let mut missed = resume("2");
    let event = missed.next().unwrap();
    assert_eq!((event.id.as_deref(), &event.data["progress"]["percent"]), (Some("2"), &json!(30)));
    // A transition was missed as well: the event has the current state.
    let mut both = resume("1");
    let event = both.next().unwrap();
    assert_eq!((event.id.as_deref(), &event.data["progress"]["percent"]), (Some("2"), &json!(30)));
    customer.settle(&job, json!({"outcome": "completed"}));
    for events in [&mut nothing_missed, &mut missed, &mut both] {
        assert_eq!(events.next().unwrap().data["status"], "Completed");
        assert!(events.next().is_none());
    }
}
