//! §4: keys are made, shown once, expire and are revoked.

use crate::serve::{Client, Customer, TestServer, customer::fresh, wait_until};
use serde_json::json;

#[test]
fn a_key_is_shown_once_and_works_at_once() {
    let customer = Customer::new();
    let grant = json!({"name": "reader", "scopes": ["jobs:read"]});
    let made = customer.owner.post("/api/keys").json(&grant).send().ok(201);
    let key = made["key"].as_str().unwrap();
    assert!(key.starts_with("csk_") && key.len() >= 4 + 43, "256 bits: {}", key.len());
    let reader = customer.test_server.anonymous().with_key(key);
    reader.get("/api/jobs").send().ok(200);
    reader.post("/api/jobs").json(&json!({"jobType": "x"})).send().problem(403, "FORBIDDEN");
    let listed = customer.owner.get("/api/keys").send();
    assert!(!listed.text().contains(key), "never again");
    let listed = listed.ok(200);
    let ours =
        listed["items"].as_array().unwrap().iter().find(|shown| shown["id"] == made["id"]).unwrap();
    assert_eq!((&ours["name"], &ours["scopes"]), (&json!("reader"), &json!(["jobs:read"])));
    assert_eq!(ours["tenant"], json!(customer.tenant), "without a tenant: the creator's");
}

#[test]
fn a_revoked_key_is_refused_at_once() {
    let customer = Customer::new();
    let grant = json!({"name": "short", "scopes": ["jobs:read"]});
    let made = customer.owner.post("/api/keys").json(&grant).send().ok(201);
    let client = customer.test_server.anonymous().with_key(made["key"].as_str().unwrap());
    client.get("/api/jobs").send().ok(200);
    let path = format!("/api/keys/{}", made["id"].as_str().unwrap());
    assert_eq!(customer.owner.delete(&path).send().status, 204);
    client.get("/api/jobs").send().problem(401, "UNAUTHENTICATED");
    customer.owner.delete("/api/keys/nothing").send().problem(404, "KEY_NOT_FOUND");
}

#[test]
fn a_misspelt_limit_is_refused_and_a_new_key_lists_its_limits() {
    let customer = Customer::new();
    let typo = json!({"name": "mailer", "scopes": ["work"], "type": ["mail.*"]});
    let problem = customer.owner.post("/api/keys").json(&typo).send().problem(400, "INVALID_FIELD");
    assert_eq!(problem["errors"][0]["pointer"], "/type");
    let grant = json!({"name": "mailer", "scopes": ["work"], "types": ["mail.*"]});
    let made = customer.owner.post("/api/keys").json(&grant).send().ok(201);
    assert_eq!((&made["types"], &made["scopes"]), (&json!(["mail.*"]), &json!(["work"])));
    assert_eq!(made["tenant"], json!(customer.tenant));
}

/// The signed addresses of all tenants end with a signing key.
#[test]
fn type_limited_admins_cannot_see_or_revoke_signing_keys() {
    let test_server = TestServer::start();
    let admin = test_server.admin();
    let signing = |client: &Client| -> Vec<String> {
        let keys = client.get("/api/keys").send().ok(200);
        let keys = keys["items"].as_array().unwrap().iter().filter(|key| key["kind"] == "signing");
        keys.map(|key| key["id"].as_str().unwrap().into()).collect()
    };
    let grant = json!({"name": "mail", "tenant": "*", "scopes": ["admin"], "types": ["mail.*"]});
    let limited = test_server.client(grant);
    let ids = signing(&admin);
    assert!(!ids.is_empty() && signing(&limited).is_empty());
    let path = format!("/api/keys/{}", ids[0]);
    limited.delete(&path).send().problem(403, "FORBIDDEN");
    assert_eq!(admin.delete(&path).send().status, 204);
}

#[test]
fn a_key_stops_working_at_its_expiry() {
    let customer = Customer::new();
    let id = customer.submit(json!({"jobType": fresh("type"), "delaySeconds": 1}));
    let soon = customer.status(&id)["nextAttemptAt"].clone();
    let client = customer.client(json!({"scopes": ["jobs:read"], "expiresAt": soon}));
    wait_until("the key ends", || client.get("/api/jobs").send().status == 401);
    let past = json!({"name": "x", "scopes": ["jobs:read"], "expiresAt": "2001-01-01T00:00:00Z"});
    customer.owner.post("/api/keys").json(&past).send().problem(400, "INVALID_FIELD");
}

/// A caller cannot grant more rights than it has.
#[test]
fn a_key_cannot_reach_further_than_its_maker() {
    let customer = Customer::new();
    let ask = |grant: serde_json::Value| customer.owner.post("/api/keys").json(&grant).send();
    ask(json!({"name": "x", "tenant": "*", "scopes": ["jobs:read"]})).problem(403, "FORBIDDEN");
    ask(json!({"name": "x", "tenant": "other", "scopes": ["jobs:read"]})).problem(403, "FORBIDDEN");
    ask(json!({"name": "x", "scopes": []})).problem(400, "INVALID_FIELD");
    ask(json!({"name": "x", "scopes": ["jobs:everything"]})).problem(400, "INVALID_FIELD");
    ask(json!({"name": "", "scopes": ["jobs:read"]})).problem(400, "INVALID_FIELD");
    let limited =
        customer.client(json!({"scopes": ["admin"], "types": ["mail-*"], "subjects": ["a-*"]}));
    for wider in [
        json!({"name": "x", "scopes": ["work"], "types": ["*"], "subjects": ["a-*"]}),
        json!({"name": "x", "scopes": ["work"], "types": ["mail-*"]}),
        json!({"name": "x", "scopes": ["work"], "types": ["mail-*"], "subjects": ["*"]}),
    ] {
        limited.post("/api/keys").json(&wider).send().problem(403, "FORBIDDEN");
    }
    let within =
        json!({"name": "x", "scopes": ["work"], "types": ["mail-out"], "subjects": ["a-1"]});
    limited.post("/api/keys").json(&within).send().ok(201);
}

/// Wildcards match what they should, and nothing else.
#[test]
fn a_key_reaches_the_types_and_subjects_it_names() {
    let customer = Customer::new();
    let client = customer.client(json!({"types": ["mail-*"], "subjects": ["order/*/paid"]}));
    let ask = |job_type: &str, subject: &str| {
        let job = json!({"jobType": job_type, "subjectId": subject});
        client.post("/api/jobs").json(&job).send()
    };
    ask("mail-out", "order/7/paid").ok(202);
    ask("mail", "order/7/paid").problem(403, "FORBIDDEN");
    ask("mail-out", "order/7/open").problem(403, "FORBIDDEN");
    let nothing = client.post("/api/jobs").json(&json!({"jobType": "mail-out"})).send();
    nothing.problem(403, "FORBIDDEN");
    let batch = json!({"jobs": [{"jobType": "mail-out", "subjectId": "order/1/paid"}, {"jobType": "fax", "subjectId": "order/1/paid"}]});
    client.post("/api/jobs/batch").json(&batch).send().problem(403, "FORBIDDEN");
    let partial = client.post("/api/jobs/batch?partial=true").json(&batch).send().ok(207);
    assert_eq!(partial["items"][1]["problem"]["errorCode"], "FORBIDDEN");
    assert_eq!(client.get("/api/jobs").send().ok(200)["items"].as_array().unwrap().len(), 2);
}

#[test]
fn keys_outlive_the_process() {
    let test_server = std::sync::Arc::new(crate::serve::TestServer::start());
    let customer = Customer::of(&test_server);
    let id = customer.queued(&fresh("type"));
    test_server.kill();
    test_server.restart();
    assert_eq!(customer.status(&id)["status"], "Queued");
    assert!(test_server.stop().success(), "{}", test_server.log());
    test_server.restart();
    assert_eq!(customer.status(&id)["status"], "Queued");
    let key_file = std::fs::metadata(test_server.data().join("admin.key")).unwrap();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&key_file.permissions()) & 0o777, 0o600);
}
