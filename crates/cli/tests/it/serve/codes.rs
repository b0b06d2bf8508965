//! Every code of the catalogue, provoked once from outside.

mod disk_faults;

use super::{
    Answer, Customer, TestServer,
    customer::{fresh, id_of, lease_item},
};
use serde_json::{Value, json};
use std::{collections::BTreeSet, sync::Arc, thread};
use wire::{CATALOGUE, entry};

/// How a code is provoked.
enum Provoke {
    /// As an answer.
    Answer(fn(&Customer) -> Answer),
    /// As a problem of one item inside an answer.
    Item(fn(&Customer) -> Value),
    /// As the error of a job; the result is its id.
    Job(fn(&Customer) -> String),
}

use Provoke::{Answer as Reply, Item, Job};

#[rustfmt::skip]
const PROVOKED: &[(&str, Provoke)] = &[
    ("ALREADY_ENDED",          Item(|c| settled_twice(c, json!({"outcome": "failed", "retryable": false})))),
    ("BODY_TOO_LARGE",         Reply(|c| submit(c, json!({"jobType": "x", "payload": "x".repeat(3 << 20)})))),
    ("FILTER_FIELD",           Reply(|c| c.owner.get("/api/jobs?filter=payload%20eq%20'x'").send())),
    ("FILTER_SYNTAX",          Reply(|c| c.owner.get("/api/jobs?filter=status").send())),
    ("FORBIDDEN",              Reply(|c| c.client(json!({"scopes": ["work"]})).get("/api/jobs").send())),
    ("HANDLER_FAILED",         Job(|c| c.ended(&fresh("type"), json!({"outcome": "failed", "retryable": false})))),
    ("HANDLER_TIMEOUT",        Job(timed_out)),
    ("HEADERS_TOO_LARGE",      Reply(|c| c.owner.get("/api/jobs").header("x", &"x".repeat(20_000)).send())),
    ("IDEMPOTENCY_KEY_REUSED", Reply(reused)),
    ("INVALID_FIELD",          Reply(|c| submit(c, json!({"jobType": "NO"})))),
    ("ISSUER_UNAVAILABLE",     Reply(issuer_away)),
    ("JOB_EXPIRED",            Job(expired)),
    ("JOB_NOT_FOUND",          Reply(|c| c.owner.get("/api/jobs/018f0000-0000-7000-8000-000000000000").send())),
    ("KEY_ENDED",              Reply(rotated_late)),
    ("KEY_NOT_FOUND",          Reply(|c| c.owner.delete("/api/keys/nothing").send())),
    ("LEASE_EXPIRED",          Job(|c| lost(c, 9, "Queued"))),
    ("LEASE_LOST",             Reply(lease_lost)),
    ("MALFORMED_BODY",         Reply(|c| typed(c, "{").send())),
    ("MALFORMED_REQUEST",      Reply(|c| c.owner.get("/healthz").header("host", "a").header("host", "b").send())),
    ("MESSAGE_UNREADABLE",     Job(|c| c.ended(&fresh("type"), json!({"outcome": "poisoned"})))),
    ("METHOD_NOT_ALLOWED",     Reply(|c| c.owner.put("/api/jobs").send())),
    ("NOT_ACCEPTABLE",         Reply(|c| c.owner.get("/api/jobs").header("accept", "image/png").send())),
    ("NOT_ENDED",              Reply(|c| c.owner.delete(&format!("/api/jobs/{}", c.queued("x"))).send())),
    ("NOT_FOUND",              Reply(|c| c.owner.get("/nowhere").send())),
    ("NOT_REDRIVABLE",         Reply(not_redrivable)),
    ("OVERLOADED",             Reply(overloaded)),
    ("PAYLOAD_TOO_LARGE",      Reply(|c| submit(c, json!({"jobType": "x", "payload": "x".repeat(70_000)})))),
    ("QUEUE_FULL",             Reply(full)),
    ("QUEUE_NOT_FOUND",        Reply(|c| c.owner.get(&format!("/api/queues/{}", fresh("type"))).send())),
    ("RATE_LIMITED",           Reply(limited)),
    ("RELEASE_LIMIT",          Job(released)),
    ("REQUEST_TIMEOUT",        Reply(too_slow)),
    ("SCHEMA_MISMATCH",        Reply(other_shape)),
    ("STEP_LIMIT",             Reply(steps)),
    ("STEP_NOT_BEGUN",         Reply(step_not_begun)),
    ("STORE_DAMAGED",          Reply(disk_faults::damaged)),
    ("TENANT_LIMIT",           Reply(one_type_too_many)),
    ("UNAUTHENTICATED",        Reply(|c| c.test_server.anonymous().get("/api/jobs").send())),
    ("UNKNOWN_JOB_TYPE",       Reply(undeclared)),
    ("UNSUPPORTED_MEDIA_TYPE", Reply(|c| c.owner.post("/api/jobs").header("content-type", "text/plain").body("x").send())),
    ("WORKER_LOST",            Job(|c| lost(c, 1, "Poisoned"))),
];

/// Provoked by a disk that fails, which has a test of its own (`codes/disk_faults.rs`).
const BY_THE_DISK: &[&str] = &["OUTCOME_UNKNOWN", "STORE_FULL", "STORE_UNAVAILABLE"];

/// Codes that cannot be provoked from outside, and why.
const INSIDE: &[(&str, &str)] = &[
    ("INTERNAL", "it is a mistake of ours; where one is known, it is mended instead"),
    ("NOT_DUE", "the catalogue says that it stays inside"),
    ("NOT_POISONED", "no route discards one job: POST /api/poison/discard counts those it matched"),
    ("NOT_QUEUED", "the catalogue says that it stays inside"),
    ("VERSION_CHANGED", "the catalogue says that it stays inside"),
];

#[test]
fn every_code_of_the_catalogue_is_provoked() {
    let provoked = PROVOKED.iter().map(|(code, _)| *code);
    let inside = INSIDE.iter().map(|(code, _)| *code);
    let tested: BTreeSet<&str> =
        provoked.chain(BY_THE_DISK.iter().copied()).chain(inside).collect();
    let catalogue: BTreeSet<&str> = CATALOGUE.iter().map(|entry| entry.code).collect();
    let open: Vec<_> = catalogue.symmetric_difference(&tested).collect();
    assert!(open.is_empty(), "no test provokes them, or the catalogue lacks them: {open:?}");
}

#[test]
fn every_code_comes_with_the_status_that_the_catalogue_gives_it() {
    let customer = Customer::new();
    let failed: Vec<String> = thread::scope(|scope| {
        let started: Vec<_> = PROVOKED
            .iter()
            .map(|(code, provoke)| (code, scope.spawn(|| check(&customer, code, provoke))))
            .collect();
        let broken = started.into_iter().filter_map(|(code, one)| {
            let panic_text = one.join().err()?;
            Some(format!(
                "{code}: {}",
                panic_text.downcast_ref::<String>().cloned().unwrap_or_default()
            ))
        });
        broken.collect()
    });
    assert!(failed.is_empty(), "{} codes:\n{}", failed.len(), failed.join("\n"));
}

fn check(customer: &Customer, code: &str, provoke: &Provoke) {
    let catalogue_entry = entry(code).unwrap();
    match provoke {
        Reply(provoke) => {
            let answer = provoke(customer);
            let problem = answer.problem(catalogue_entry.http_status.unwrap(), code);
            assert_eq!(problem["title"], catalogue_entry.title);
            let waits = answer.header("retry-after").is_some();
            assert_eq!(
                waits,
                catalogue_entry.retryable && code != "REQUEST_TIMEOUT",
                "{code}: Retry-After"
            );
        }
        Item(provoke) => {
            let problem = provoke(customer)["problem"].clone();
            assert_eq!(
                (&problem["errorCode"], &problem["status"]),
                (&json!(code), &json!(catalogue_entry.http_status))
            );
        }
        Job(provoke) => {
            assert_eq!(catalogue_entry.http_status, None, "{code} stands on a job");
            assert_eq!(customer.status(&provoke(customer))["errorCode"], code);
        }
    }
}

fn submit(customer: &Customer, job: Value) -> Answer {
    customer.owner.post("/api/jobs").json(&job).send()
}

fn typed(customer: &Customer, body: &str) -> super::Ask {
    customer.owner.post("/api/jobs").header("content-type", "application/json").body(body)
}

fn settled_twice(customer: &Customer, second: Value) -> Value {
    let job = customer.running(&fresh("type"));
    customer.settle(&job, json!({"outcome": "completed"}));
    customer.settle(&job, second)
}

fn timed_out(customer: &Customer) -> String {
    let job_type = fresh("type");
    customer.policy(&job_type, json!({"timeout": "1s", "lease": "1s", "maxAttempts": 1}));
    let id = id_of(&customer.running(&job_type));
    customer.wait_for_status(&id, "Poisoned");
    id
}

fn expired(customer: &Customer) -> String {
    let clock = customer.submit(json!({"jobType": fresh("type"), "delaySeconds": 1}));
    let soon = customer.status(&clock)["nextAttemptAt"].clone();
    let id = customer.submit(json!({"jobType": fresh("type"), "expiresAt": soon}));
    customer.wait_for_status(&id, "Cancelled");
    id
}

/// A job whose worker sends no heartbeats.
fn lost(customer: &Customer, losses_max: u32, then: &str) -> String {
    let job_type = fresh("type");
    customer.policy(&job_type, json!({"lostWorkersMax": losses_max}));
    let id = customer.queued(&job_type);
    customer.claim_with(&job_type, json!({"leaseSeconds": 1}));
    customer.wait_for_status(&id, then);
    id
}

/// A token of an issuer whose keys cannot be fetched: port 9 discards what it receives, or is
/// closed.
fn issuer_away(_: &Customer) -> Answer {
    let test_server = TestServer::with(
        "[jwt]\nissuer = \"https://issuer.example\"\naudience = \"consign\"\njwks_url = \"http://127.0.0.1:9/jwks\"\n",
    );
    // {"alg":"RS256","kid":"k"}.{}.signature
    let token = "eyJhbGciOiJSUzI1NiIsImtpZCI6ImsifQ.e30.c2lnbmF0dXJl";
    test_server.anonymous().with_key(token).get("/api/jobs").send()
}

fn reused(customer: &Customer) -> Answer {
    let job_type = fresh("type");
    customer.submit(json!({"jobType": job_type, "idempotencyKey": "k", "payload": 1}));
    submit(customer, json!({"jobType": job_type, "idempotencyKey": "k", "payload": 2}))
}

fn lease_lost(customer: &Customer) -> Answer {
    let job = customer.running(&fresh("type"));
    customer.release(&job, json!({}));
    let step = lease_item(&job, json!({"name": "x", "action": "begin"}));
    customer.owner.post("/api/work/steps").json(&step).send()
}

fn not_redrivable(customer: &Customer) -> Answer {
    let id = customer.completed(&fresh("type"));
    customer.owner.post(&format!("/api/jobs/{id}/redrive")).send()
}

/// One request may wait, and a second may not.
fn overloaded(_: &Customer) -> Answer {
    let test_server = Arc::new(TestServer::with("[limits]\nwaiting = 1\n"));
    let customer = Customer::of(&test_server);
    let path = format!("/api/jobs/{}/events", customer.queued("x"));
    let mut first = customer.owner.get(&path).events();
    assert!(first.next().is_some());
    customer.owner.get(&path).send()
}

fn full(customer: &Customer) -> Answer {
    let job_type = fresh("type");
    customer.policy(&job_type, json!({"maxQueued": 1}));
    customer.queued(&job_type);
    submit(customer, json!({"jobType": job_type}))
}

fn other_shape(customer: &Customer) -> Answer {
    let job_type = fresh("type");
    customer.policy(&job_type, json!({"schema": {"type": "object"}}));
    submit(customer, json!({"jobType": job_type, "payload": 5}))
}

fn one_type_too_many(_: &Customer) -> Answer {
    let customer = Customer::of(&Arc::new(TestServer::with("[limits]\njob_types = 1\n")));
    customer.queued("first");
    submit(&customer, json!({"jobType": "second"}))
}

fn limited(_: &Customer) -> Answer {
    let test_server = TestServer::with("[rate]\nper_second = 1\nburst = 1\n");
    let ask = || test_server.admin().get("/api/jobs").send();
    let mut answers = std::iter::repeat_with(ask);
    answers.find(|answer| answer.status != 200).unwrap()
}

fn released(customer: &Customer) -> String {
    let job_type = fresh("type");
    let id = customer.submit(json!({"jobType": job_type, "maxAttempts": 1}));
    for _ in 0..21 {
        customer.release(&customer.claim(&job_type), json!({}));
    }
    id
}

/// A body that was announced and does not come.
fn too_slow(_: &Customer) -> Answer {
    let test_server = TestServer::with("[limits]\nbody_timeout = \"200ms\"\n");
    let ask = test_server.admin().post("/api/jobs").header("content-type", "application/json");
    let mut connection = test_server.admin().connect().unwrap();
    connection.write(&ask.header("content-length", "10").body("{").bytes()).unwrap();
    connection.answer("POST").unwrap()
}

fn steps(customer: &Customer) -> Answer {
    let job = customer.running(&fresh("type"));
    let mut connection = customer.owner.connect().unwrap();
    for number in 0..=1_000 {
        let step = lease_item(&job, json!({"name": format!("step {number}"), "action": "begin"}));
        let ask = customer.owner.post("/api/work/steps").json(&step);
        let answer = connection.send(ask).unwrap();
        if answer.status != 200 {
            return answer;
        }
    }
    panic!("as many steps as one likes")
}

fn step_not_begun(customer: &Customer) -> Answer {
    let job = customer.running(&fresh("type"));
    let step = lease_item(&job, json!({"name": "x", "action": "finish"}));
    customer.owner.post("/api/work/steps").json(&step).send()
}

fn undeclared(_: &Customer) -> Answer {
    let test_server = TestServer::with("strict_types = true\n");
    test_server.admin().post("/api/jobs").json(&json!({"jobType": "x"})).send()
}

fn rotated_late(customer: &Customer) -> Answer {
    let grant = json!({"name": "old", "scopes": ["jobs:read"]});
    let made = customer.owner.post("/api/keys").json(&grant).send().ok(201);
    let path = format!("/api/keys/{}", made["id"].as_str().unwrap());
    assert_eq!(customer.owner.delete(&path).send().status, 204);
    customer.owner.post(&format!("{path}/rotate")).send()
}
