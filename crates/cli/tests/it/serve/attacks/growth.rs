//! One small key makes the store grow: job types, pauses, keys, workers, codes of the poison queue.
//! Each has a bound per tenant, a refusal names the setting, and lists come in pages.

use crate::serve::{Answer, Client, Customer, TestServer, customer::fresh};
use serde_json::{Value, json};
use std::{collections::BTreeSet, sync::Arc};

/// Small bounds, so that they are reached soon.
const SMALL: &str = "[limits]\njob_types = 5\napi_keys = 4\nworkers = 3\n";

fn submit(client: &Client, job_type: &str) -> Answer {
    client.post("/api/jobs").json(&json!({"jobType": job_type})).send()
}

#[track_caller]
fn refused(answer: &Answer, setting: &str) {
    let problem = answer.problem(422, "TENANT_LIMIT");
    assert!(problem["detail"].as_str().unwrap().contains(setting), "{problem}");
}

/// All items of a list, in pages of two.
#[track_caller]
fn pages(client: &Client, path: &str) -> Vec<Value> {
    let (mut items, mut cursor) = (Vec::new(), String::new());
    for _ in 0..100 {
        let page = client.get(&format!("{path}?top=2{cursor}")).send().ok(200);
        let own = page["items"].as_array().unwrap();
        assert!(own.len() <= 2, "{path}: {page}");
        items.extend(own.iter().cloned());
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => {
                assert_eq!(page["nextCursor"], Value::Null, "{path}");
                return items;
            }
        }
    }
    panic!("{path} has no end")
}

fn texts(items: &[Value], field: &str) -> Vec<String> {
    items.iter().map(|item| item[field].as_str().unwrap().to_owned()).collect()
}

#[test]
fn one_key_cannot_open_more_types_than_its_tenant_may_have() {
    let test_server = Arc::new(TestServer::with(SMALL));
    let (attacker, other) = (Customer::of(&test_server), Customer::of(&test_server));
    for number in 0..5 {
        submit(&attacker.owner, &format!("type-{number}")).ok(202);
    }
    refused(&submit(&attacker.owner, "one-more"), "limits.job_types");
    submit(&attacker.owner, "type-0").ok(202);
    submit(&other.owner, "one-more").ok(202);
    // A batch is taken whole or not at all; each job of a partial one has a verdict of its own.
    let jobs = json!({"jobs": [{"jobType": "type-1"}, {"jobType": "one-more"}]});
    refused(&attacker.owner.post("/api/jobs/batch").json(&jobs).send(), "limits.job_types");
    let partly = attacker.owner.post("/api/jobs/batch?partial=true").json(&jobs).send().ok(207);
    assert!(partly["items"][0]["jobId"].is_string(), "{partly}");
    assert_eq!(partly["items"][1]["problem"]["errorCode"], "TENANT_LIMIT");
    // A queue can be paused before its first job, so pauses have a bound as well.
    for number in 0..5 {
        attacker.owner.post(&format!("/api/queues/paused-{number}/pause")).send().ok(200);
    }
    refused(&attacker.owner.post("/api/queues/one-more/pause").send(), "limits.job_types");
    // A type that an operator declares does not count.
    attacker.policy("one-more", json!({}));
    submit(&attacker.owner, "one-more").ok(202);
    test_server.kill();
    test_server.restart();
    refused(&submit(&attacker.owner, "two-more"), "limits.job_types");
}

#[test]
fn one_key_cannot_make_more_keys_than_its_tenant_may_have() {
    let customer = Customer::of(&Arc::new(TestServer::with(SMALL)));
    let make = || {
        let grant = json!({"name": fresh("key"), "scopes": ["jobs:read"]});
        customer.owner.post("/api/keys").json(&grant).send()
    };
    let made: Vec<Value> = (0..3).map(|_| make().ok(201)).collect();
    refused(&make(), "limits.api_keys");
    // A revoked key does not count, so a client that makes and revokes keys is never locked out.
    let first = made[0]["id"].as_str().unwrap();
    assert_eq!(customer.owner.delete(&format!("/api/keys/{first}")).send().status, 204);
    make().ok(201);
    refused(&make(), "limits.api_keys");
    let listed = customer.owner.get("/api/keys").send().ok(200);
    assert_eq!(listed["items"].as_array().unwrap().len(), 4);
    assert!(!texts(listed["items"].as_array().unwrap(), "id").contains(&first.to_owned()));
}

#[test]
fn one_key_cannot_be_more_workers_than_its_tenant_may_have() {
    let customer = Customer::of(&Arc::new(TestServer::with(SMALL)));
    for number in 0..10 {
        customer.claim_with("email", json!({"workerId": format!("worker-{number}")}));
    }
    customer.queued("email");
    let claimed = customer.claim_with("email", json!({"workerId": "one-more"}));
    assert_eq!(claimed.len(), 1, "one too many works like any other");
    let listed = customer.owner.get("/api/workers").send().ok(200);
    assert_eq!(listed["items"].as_array().unwrap().len(), 3, "and is not listed");
}

#[test]
fn list_pages_leave_no_entry_out() {
    let customer = Customer::new();
    let types: BTreeSet<String> = (0..5).map(|_| fresh("type")).collect();
    for job_type in &types {
        customer.queued(job_type);
        let worker = format!("worker-{job_type}");
        customer.claim_with(job_type, json!({"workerId": worker}));
        customer.client(json!({}));
    }
    let queues = texts(&pages(&customer.owner, "/api/queues"), "jobType");
    assert_eq!(queues, types.iter().cloned().collect::<Vec<_>>(), "in order, and none twice");
    let known = texts(&pages(&customer.owner, "/api/types"), "jobType");
    assert!(known.is_sorted() && types.iter().all(|of| known.contains(of)), "{known:?}");
    let workers = texts(&pages(&customer.owner, "/api/workers"), "workerId");
    let expected: Vec<String> = types.iter().map(|of| format!("worker-{of}")).collect();
    assert_eq!(workers, expected);
    let keys = pages(&customer.owner, "/api/keys");
    let (ids, since) = (texts(&keys, "id"), texts(&keys, "createdAt"));
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 6, "the owner's, and five more");
    assert!(since.is_sorted(), "the oldest first");
    let signing = pages(&customer.test_server.admin(), "/api/keys");
    assert!(signing.iter().any(|key| key["kind"] == "signing"));
    let job_type = fresh("type");
    let id = customer.queued(&job_type);
    for _ in 0..3 {
        let job = customer.claim(&job_type);
        customer.release(&job, json!({"delaySeconds": 0}));
    }
    let history = pages(&customer.owner, &format!("/api/jobs/{id}/history"));
    let numbers: Vec<u64> = history.iter().map(|row| row["seq"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=7).collect::<Vec<_>>());
    for path in ["queues", "types", "workers", "keys"] {
        for wrong in ["cursor=x", "cursor=", "top=0", "top=1001", "curser=00"] {
            let answer = customer.owner.get(&format!("/api/{path}?{wrong}")).send();
            answer.problem(400, "INVALID_FIELD");
        }
    }
}

/// However many jobs wait for a person, the server counts them without reading them.
#[test]
fn poison_is_counted_exactly_for_each_caller() {
    let customer = Customer::new();
    let (one, other) = (fresh("type"), fresh("type"));
    for (job_type, code) in [(&one, "BAD"), (&one, "BAD"), (&one, "DOWN"), (&other, "BAD")] {
        customer.ended(job_type, json!({"outcome": "poisoned", "errorCode": code}));
    }
    let counts = |client: &Client, path: &str| client.get(path).send().ok(200)["counts"].clone();
    assert_eq!(counts(&customer.owner, "/api/poison?top=1"), json!({"BAD": 3, "DOWN": 1}));
    let of_type = format!("/api/poison?jobType={one}&errorCode=DOWN");
    assert_eq!(counts(&customer.owner, &of_type), json!({"BAD": 2, "DOWN": 1}));
    let limited = customer.client(json!({"types": [other]}));
    assert_eq!(counts(&limited, "/api/poison"), json!({"BAD": 1}));
    let of_subject = customer.client(json!({"subjects": ["mine"]}));
    assert_eq!(counts(&of_subject, "/api/poison"), json!({"BAD": 3, "DOWN": 1}));
    let of_other = customer.client(json!({"subjects": ["another"]}));
    assert_eq!(counts(&of_other, "/api/poison"), json!({}));
}
