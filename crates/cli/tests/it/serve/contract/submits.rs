//! §1 and §3: a job is submitted.

use crate::serve::{Customer, customer::fresh};
use serde_json::{Value, json};

#[test]
fn a_job_is_taken_with_everything_a_client_needs_to_follow_it() {
    let customer = Customer::new();
    let job = json!({"jobType": fresh("type"), "subjectId": "order/7", "payload": {"a": 1}, "tenant": "evil"});
    let answer = customer.owner.post("/api/jobs").json(&job).send();
    let taken = answer.ok(202);
    let names: Vec<&String> = taken.as_object().unwrap().keys().collect();
    let mut expected =
        ["jobId", "subjectId", "statusUrl", "correlationId", "status", "duplicate"].to_vec();
    expected.sort_unstable();
    assert_eq!(names, expected, "and nothing else");
    let id = taken["jobId"].as_str().unwrap();
    assert_eq!(taken["subjectId"], "order/7");
    assert_eq!(taken["statusUrl"], format!("/api/jobs/{id}/status"));
    assert_eq!((&taken["status"], &taken["duplicate"]), (&json!("Queued"), &json!(false)));
    assert_eq!(answer.header("location"), taken["statusUrl"].as_str());
    assert!(answer.header("retry-after").unwrap().parse::<u32>().unwrap() >= 1);
    assert_eq!(answer.header("x-correlation-id"), taken["correlationId"].as_str());
    assert_eq!(id.as_bytes()[14], b'7', "UUIDv7: {id}");
    let full_job = customer.owner.get(&format!("/api/jobs/{id}")).send().ok(200);
    assert_eq!((&full_job["payload"], &full_job["priority"]), (&json!({"a": 1}), &json!(4)));
    assert_eq!(full_job["tenant"], customer.tenant, "never from the body");
}

/// Callers who may read jobs but not payloads see everything else.
#[test]
fn a_payload_is_shown_only_to_those_who_may_see_it() {
    let customer = Customer::new();
    let id = customer.queued(&fresh("type"));
    let reader = customer.client(json!({"scopes": ["jobs:read"]}));
    let shown = reader.get(&format!("/api/jobs/{id}")).send().ok(200);
    assert!(shown.get("payload").is_none() && shown["jobId"] == id.as_str());
}

#[test]
fn fields_are_taken_within_their_limits_and_refused_beyond() {
    let customer = Customer::new();
    let job_type = fresh("type");
    let with = |field: &str, value: Value| {
        let mut job = json!({"jobType": job_type});
        job[field] = value;
        customer.owner.post("/api/jobs").json(&job).send()
    };
    let letters = |count: usize| json!("ü".repeat(count));
    let later = json!("2999-01-01T00:00:00.000Z");
    let good = [
        ("jobType", json!("a")),
        ("jobType", json!(format!("0{}", "a".repeat(63)))),
        ("subjectId", letters(256)),
        ("correlationId", json!("x".repeat(128))),
        ("idempotencyKey", letters(1_024)),
        ("payload", json!(null)),
        ("payload", json!([1, "two", {"three": 3}])),
        ("payloadVersion", json!(3)),
        ("payloadVersion", json!("v3")),
        ("priority", json!(0)),
        ("priority", json!(9)),
        ("maxAttempts", json!(1)),
        ("maxAttempts", json!(100)),
        ("delaySeconds", json!(60)),
        ("runAt", later.clone()),
        ("expiresAt", later.clone()),
        ("unknownField", json!({"is": "ignored"})),
    ];
    for (field, value) in good {
        let answer = with(field, value.clone());
        assert_eq!(answer.status, 202, "{field} {value}: {}", answer.text());
    }
    let bad = [
        ("jobType", json!("")),
        ("jobType", json!("A")),
        ("jobType", json!(".a")),
        ("jobType", json!("a".repeat(65))),
        ("subjectId", letters(257)),
        ("subjectId", json!("a\u{0}b")),
        ("correlationId", json!("x".repeat(129))),
        ("idempotencyKey", letters(1_025)),
        ("payload", json!("a\u{0}b")),
        ("priority", json!(10)),
        ("priority", json!(-1)),
        ("maxAttempts", json!(0)),
        ("maxAttempts", json!(101)),
        ("delaySeconds", json!(-1)),
        ("runAt", json!("tomorrow")),
        ("expiresAt", json!("2001-01-01T00:00:00Z")),
        ("parentId", json!("no-id")),
    ];
    for (field, value) in bad {
        let answer = with(field, value.clone());
        let problem = answer.problem(400, "INVALID_FIELD");
        let pointer = format!("/{field}");
        assert_eq!(problem["errors"][0]["pointer"], pointer.as_str(), "{field} {value}");
    }
    let both = json!({"jobType": job_type, "runAt": later, "delaySeconds": 5});
    customer.owner.post("/api/jobs").json(&both).send().problem(400, "INVALID_FIELD");
    let never = json!({"jobType": job_type, "delaySeconds": 100, "expiresAt": soon()});
    customer.owner.post("/api/jobs").json(&never).send().problem(400, "INVALID_FIELD");
    let queue = customer.owner.get(&format!("/api/queues/{job_type}")).send().ok(200);
    assert_eq!(queue["queued"], 15, "what was refused was not stored");
}

/// Half a minute from now, in the format of the API: read from a new job.
fn soon() -> Value {
    let customer = Customer::new();
    let job = json!({"jobType": "clock", "delaySeconds": 30});
    let id = customer.submit(job);
    customer.status(&id)["nextAttemptAt"].clone()
}

#[test]
fn times_are_utc_with_milliseconds() {
    let customer = Customer::new();
    let id = customer.queued(&fresh("type"));
    let at = customer.status(&id)["createdAt"].as_str().unwrap().to_owned();
    let shape: String =
        at.chars().map(|letter| if letter.is_ascii_digit() { '0' } else { letter }).collect();
    assert_eq!(shape, "0000-00-00T00:00:00.000Z");
    let zoned = json!({"jobType": fresh("type"), "runAt": "2999-01-01T02:00:00+02:00"});
    assert_eq!(
        customer.status(&customer.submit(zoned))["nextAttemptAt"],
        "2999-01-01T00:00:00.000Z"
    );
}

/// A worker for all tenants makes children in the tenant of their parents; no other caller chooses
/// a tenant by naming a job.
#[test]
fn only_all_tenant_workers_create_children_in_the_parent_tenant() {
    let customer = Customer::new();
    let parent = customer.queued(&fresh("type"));
    let child = json!({"jobType": fresh("type"), "parentId": parent});
    let tenant_by = |scopes: &[&str]| {
        let key = json!({"name": "all", "tenant": "*", "scopes": scopes});
        let taken = customer.test_server.client(key).post("/api/jobs").json(&child).send().ok(202);
        let id = taken["jobId"].as_str().unwrap().to_owned();
        let full_job = customer.test_server.admin().get(&format!("/api/jobs/{id}")).send().ok(200);
        full_job["tenant"].as_str().unwrap().to_owned()
    };
    assert_eq!(tenant_by(&["work", "jobs:enqueue"]), customer.tenant);
    assert_eq!(tenant_by(&["jobs:enqueue"]), "default");
}

/// A child has its parent's correlation only where its submission says so; it shows its parent.
#[test]
fn a_child_names_its_parent_and_is_found_by_it() {
    let customer = Customer::new();
    let parent = customer.queued(&fresh("type"));
    let child = customer.submit(json!({"jobType": fresh("type"), "parentId": parent}));
    assert_eq!(customer.status(&child)["parentId"], parent.as_str());
    let filter = format!("/api/jobs?filter=parentId%20eq%20'{parent}'");
    let found = customer.owner.get(&filter).send().ok(200);
    assert_eq!(found["items"].as_array().unwrap().len(), 1);
    assert_eq!(found["items"][0]["jobId"], child.as_str());
}
