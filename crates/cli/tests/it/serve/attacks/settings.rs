//! Bodies that set something, and say it wrong: a field that is not known must not be a default in
//! silence.

use crate::serve::{Customer, customer::fresh};
use serde_json::{Value, json};

#[test]
fn a_setting_with_an_unknown_field_is_refused_and_sets_nothing() {
    let customer = Customer::new();
    let (admin, job_type) = (customer.house.admin(), fresh("type"));
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
fn every_route_that_sets_something_refuses_what_it_does_not_know() {
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
        ("/api/poison/discard", json!({"filter": filter, "dryRun": true}), "/dryRun"),
        ("/api/jobs/cancel", json!({"filter": filter, "dryRun": true}), "/dryRun"),
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
    // Those who hand jobs over, and those who report, may say more than we know.
    customer.submit(json!({"jobType": job_type, "colour": "red"}));
    let beat = json!({"workerId": "w1", "leases": [], "mood": "good"});
    owner.post("/api/work/heartbeat").json(&beat).send().ok(200);
}
