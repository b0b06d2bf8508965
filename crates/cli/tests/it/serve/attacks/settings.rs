//! Wrong bodies of setters: an unknown field must not silently mean a default.

use crate::serve::{Customer, customer::fresh};
use serde_json::{Value, json};

#[test]
fn a_type_policy_with_an_unknown_field_changes_nothing() {
    let customer = Customer::new();
    let (admin, job_type) = (customer.test_server.admin(), fresh("type"));
    let path = format!("/api/types/{job_type}");
    let set = json!({"maxAttempts": 7, "retention": "5d", "backoff": {"base": "3s"}});
    admin.put(&path).json(&set).send().ok(200);
    let shown = || {
        let types = admin.get("/api/types").send().ok(200);
        let mut types = types["items"].as_array().unwrap().clone().into_iter();
        types.find(|one| one["jobType"] == job_type.as_str()).unwrap()
    };
    let before = shown();
    for (body, pointer, meant) in [
        (json!({"retentionSeconds": 60}), "/retentionSeconds", "retention"),
        (json!({"maxAtempts": 3}), "/maxAtempts", "maxAttempts"),
        (json!({"backoff": {"bse": "1s"}}), "/backoff/bse", "base"),
    ] {
        let problem = admin.put(&path).json(&body).send().problem(400, "INVALID_FIELD");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem}");
        let hint = format!("did you mean `{meant}`?");
        assert!(problem["detail"].as_str().unwrap().ends_with(&hint), "{problem}");
    }
    assert_eq!(shown(), before);
    admin.put(&path).json(&before).send().ok(200);
    assert_eq!(shown(), before, "what lists show can be sent back");
}

#[test]
fn changing_routes_refuse_unknown_body_fields() {
    let customer = Customer::new();
    let (owner, job_type) = (&customer.owner, fresh("type"));
    let poisoned = customer.poisoned(&job_type);
    let redrive = format!("/api/jobs/{poisoned}/redrive");
    let pause = format!("/api/queues/{job_type}/pause");
    let resume = format!("/api/queues/{job_type}/resume");
    let filter = format!("jobType eq '{job_type}'");
    let key = json!({"name": "x", "scopes": ["work"], "type": ["a"]});
    let refused: [(&str, Value, &str); 7] = [
        ("/api/keys", key, "/type"),
        (&redrive, json!({"maxAttempt": 5}), "/maxAttempt"),
        (&pause, json!({"tenant": "another"}), "/tenant"),
        (&resume, json!({"tenant": "another"}), "/tenant"),
        ("/api/poison/redrive", json!({"filter": filter, "resetSteps": true}), "/resetSteps"),
        ("/api/poison/discard", json!({"filter": filter, "dryrun": true}), "/dryrun"),
        ("/api/jobs/cancel", json!({"filter": filter, "dryrun": true}), "/dryrun"),
    ];
    for (path, body, pointer) in &refused {
        let problem = owner.post(path).json(body).send().problem(400, "INVALID_FIELD");
        assert_eq!(problem["errors"][0]["pointer"], *pointer, "{path}: {problem}");
    }
    let status = owner.get(&format!("/api/jobs/{poisoned}/status")).send().ok(200);
    assert_eq!(status["status"], "Poisoned", "nothing was done");
    assert_eq!(owner.get(&format!("/api/queues/{job_type}")).send().ok(200)["paused"], false);
    owner.post(&pause).json(&json!({})).send().ok(200);
    owner.post(&resume).send().ok(200);
    owner.post(&redrive).send().ok(202);
    // Clients that submit and workers that report may send fields that the server does not know.
    customer.submit(json!({"jobType": job_type, "colour": "red"}));
    let beat = json!({"workerId": "w1", "leases": [], "mood": "good"});
    owner.post("/api/work/heartbeat").json(&beat).send().ok(200);
}

/// `pause?tenant=acme` with a key of `*` paused every tenant: the parameter was ignored.
#[test]
fn unknown_query_parameters_are_refused_without_effect() {
    let customer = Customer::new();
    let (admin, job_type) = (customer.test_server.admin(), fresh("type"));
    let poisoned = customer.poisoned(&job_type);
    let queued = customer.queued(&job_type);
    let queue = format!("/api/queues/{job_type}");
    let filter = json!({"filter": format!("jobType eq '{job_type}'")});
    let refused: [(&str, String, Value); 11] = [
        ("POST", format!("{queue}/pause?tenant={}", customer.tenant), json!({})),
        ("POST", format!("{queue}/resume?tenant={}", customer.tenant), json!({})),
        ("POST", format!("/api/jobs/{queued}/cancel?dryRun=true"), json!({})),
        ("DELETE", format!("/api/jobs/{queued}/status?dryRun=true"), json!({})),
        ("DELETE", format!("/api/jobs/{poisoned}?dryRun=true"), json!({})),
        ("POST", format!("/api/jobs/{poisoned}/redrive?maxAttempts=5"), json!({})),
        ("POST", "/api/jobs/cancel?dryRun=true".into(), filter.clone()),
        ("POST", "/api/poison/redrive?dryRun=true".into(), filter.clone()),
        ("POST", "/api/poison/discard?dryRun=true".into(), filter),
        ("PUT", format!("/api/types/{job_type}?tenant=a"), json!({"maxAttempts": 9})),
        ("POST", "/api/work/leave?workerId=w2".into(), json!({"workerId": "w1"})),
    ];
    for (method, path, body) in &refused {
        let problem = admin.ask(method, path).json(body).send().problem(400, "INVALID_FIELD");
        let detail = problem["detail"].as_str().unwrap();
        let names_those_that_are = ["no parameters", "the parameters here are top, cursor"];
        assert!(names_those_that_are.iter().any(|text| detail.contains(text)), "{path}: {problem}");
    }
    assert_eq!(admin.get(&queue).send().ok(200)["paused"], false);
    assert_eq!(customer.status(&queued)["status"], "Queued");
    assert_eq!(customer.status(&poisoned)["status"], "Poisoned");
    // The signature of an address limits nothing: a client may DELETE the address that it has.
    admin.delete(&format!("/api/jobs/{queued}/status?sig=x")).send().ok(202);
}

#[test]
fn a_route_that_reads_no_settings_refuses_a_body_that_has_some() {
    let customer = Customer::new();
    let (owner, job_type) = (&customer.owner, fresh("type"));
    let queued = customer.queued(&job_type);
    let completed = customer.completed(&fresh("type"));
    let grant = json!({"name": "x", "scopes": ["jobs:read"]});
    let key = owner.post("/api/keys").json(&grant).send().ok(201);
    let key = key["id"].as_str().unwrap();
    let acting = [
        ("POST", format!("/api/jobs/{queued}/cancel"), 202),
        ("DELETE", format!("/api/jobs/{queued}/status"), 202),
        ("DELETE", format!("/api/jobs/{completed}"), 204),
        ("DELETE", format!("/api/keys/{key}"), 204),
    ];
    for (method, path, _) in &acting {
        let body = json!({"dryRun": true});
        let problem = owner.ask(method, path).json(&body).send().problem(400, "INVALID_FIELD");
        assert_eq!(problem["errors"][0]["pointer"], "/dryRun", "{path}: {problem}");
    }
    assert_eq!(customer.status(&queued)["status"], "Queued");
    assert_eq!(customer.status(&completed)["status"], "Completed");
    let keys = owner.get("/api/keys").send().ok(200);
    let mut keys = keys["items"].as_array().unwrap().iter();
    assert!(keys.find(|one| one["id"] == key).unwrap()["revokedAt"].is_null());
    // An empty object sets nothing. The DELETE of the status is left out: the cancel before it ends
    // the job.
    for (method, path, expected) in [&acting[0], &acting[2], &acting[3]] {
        let answer = owner.ask(method, path).json(&json!({})).send();
        assert_eq!(answer.status, *expected, "{path}: {}", answer.text());
    }
}

#[test]
fn a_policy_that_was_shown_of_one_type_is_not_set_for_another() {
    let customer = Customer::new();
    let (admin, one, other) = (customer.test_server.admin(), fresh("type"), fresh("type"));
    let path = format!("/api/types/{one}");
    let shown = admin.put(&path).json(&json!({"maxAttempts": 7})).send().ok(200);
    admin.put(&path).json(&shown).send().ok(200);
    for wrong in [json!(other), json!(""), json!(5)] {
        let body = json!({"jobType": wrong, "maxAttempts": 9});
        let problem = admin.put(&path).json(&body).send().problem(400, "INVALID_FIELD");
        assert_eq!(problem["errors"][0]["pointer"], "/jobType", "{problem}");
    }
    let types = admin.get("/api/types?top=1000").send().ok(200);
    let mut types = types["items"].as_array().unwrap().iter();
    assert_eq!(types.find(|shown| shown["jobType"] == one.as_str()).unwrap()["maxAttempts"], 7);
}
