//! §4: keys are made, shown once, expire and are revoked.

use crate::serve::{Client, Customer, TestServer, customer::fresh, wait_until};
use serde_json::{Value, json};
use std::sync::Arc;

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

/// An operator finds unused keys by the time of their last use, to the minute.
#[test]
fn a_key_shows_when_it_was_last_used() {
    let test_server = Arc::new(TestServer::start());
    let customer = Customer::of(&test_server);
    let grant = json!({"name": "reader", "scopes": ["jobs:read"]});
    let made = customer.owner.post("/api/keys").json(&grant).send().ok(201);
    let last_use = || {
        let listed = customer.owner.get("/api/keys").send().ok(200);
        key_of(&listed, &made["id"])["lastUsedAt"].clone()
    };
    assert_eq!(last_use(), Value::Null);
    let client = test_server.anonymous().with_key(made["key"].as_str().unwrap());
    client.get("/api/jobs").send().ok(200);
    let used = last_use();
    assert!(used.as_str().unwrap().ends_with(":00.000Z"), "to the minute: {used}");
    client.get("/api/jobs").send().ok(200);
    assert!(test_server.stop().success());
    test_server.restart();
    let after = last_use();
    assert!(after.as_str() >= used.as_str(), "it is kept: {after} {used}");
}

fn key_of<'a>(listed: &'a Value, id: &Value) -> &'a Value {
    let mut items = listed["items"].as_array().unwrap().iter();
    items.find(|shown| shown["id"] == *id).unwrap_or_else(|| panic!("{id}: {listed}"))
}

#[test]
fn a_rotated_key_ends_and_its_successor_may_the_same() {
    let customer = Customer::new();
    let grant = json!({"name": "shop", "scopes": ["jobs:read"], "types": ["mail-*"]});
    let made = customer.owner.post("/api/keys").json(&grant).send().ok(201);
    let rotate = |id: &Value, body: Value| {
        let path = format!("/api/keys/{}/rotate", id.as_str().unwrap());
        customer.owner.post(&path).json(&body).send()
    };
    let client =
        |made: &Value| customer.test_server.anonymous().with_key(made["key"].as_str().unwrap());
    let second = rotate(&made["id"], json!({"graceSeconds": 3_600})).ok(201);
    assert_eq!((&second["types"], &second["scopes"]), (&made["types"], &made["scopes"]));
    assert_ne!(second["key"], made["key"]);
    for one in [&made, &second] {
        client(one).get("/api/jobs").send().ok(200);
    }
    let listed = customer.owner.get("/api/keys").send().ok(200);
    assert!(key_of(&listed, &made["id"])["expiresAt"].is_string(), "{listed}");
    assert_eq!(key_of(&listed, &second["id"])["name"], "shop");

    let third = rotate(&second["id"], json!({"graceSeconds": 0})).ok(201);
    client(&second).get("/api/jobs").send().problem(401, "UNAUTHENTICATED");
    client(&third).get("/api/jobs").send().ok(200);
    rotate(&second["id"], json!({})).problem(409, "KEY_ENDED");
    for (body, pointer) in
        [(json!({"graceSeconds": -1}), "/graceSeconds"), (json!({"grace": 1}), "/grace")]
    {
        let problem = rotate(&third["id"], body).problem(400, "INVALID_FIELD");
        assert_eq!(problem["errors"][0]["pointer"], pointer);
    }
    let audit = customer.owner.get("/api/audit?top=500").send().ok(200).to_string();
    assert!(audit.contains("key.rotate") && !audit.contains("csk_"), "{audit}");
    let id = third["id"].as_str().unwrap();
    assert!(audit.contains(&format!("successor {id}")), "{audit}");
}

/// A caller may replace its own key at once, and is not locked out by it.
#[test]
fn a_key_rotates_itself() {
    let customer = Customer::new();
    let grant = json!({"name": "ops", "scopes": ["admin"]});
    let made = customer.owner.post("/api/keys").json(&grant).send().ok(201);
    let own = customer.test_server.anonymous().with_key(made["key"].as_str().unwrap());
    let path = format!("/api/keys/{}/rotate", made["id"].as_str().unwrap());
    let new = own.post(&path).json(&json!({"graceSeconds": 0})).send().ok(201);
    own.get("/api/keys").send().problem(401, "UNAUTHENTICATED");
    let new = customer.test_server.anonymous().with_key(new["key"].as_str().unwrap());
    new.get("/api/keys").send().ok(200);
}

/// The server of a web application gives each browser a key for its own user, and is no admin.
#[test]
fn a_maker_of_subject_keys_makes_sees_and_revokes_only_those() {
    let customer = Customer::new();
    let scopes = json!(["keys:subjects", "jobs:read", "jobs:enqueue"]);
    let maker = customer.client(json!({"scopes": scopes, "types": ["upload-*"]}));
    let ask = |grant: Value| maker.post("/api/keys").json(&grant).send();
    let limited = json!({
        "name": "browser", "scopes": ["jobs:read"], "types": ["upload-*"], "subjects": ["user/7"],
    });
    let with = |name: &str, value: Value| {
        let mut grant = limited.clone();
        grant[name] = value;
        grant
    };
    let made = ask(limited.clone()).ok(201);
    assert!(made["expiresAt"].is_string(), "it ends: {made}");
    for wider in [
        with("subjects", json!([])),
        with("types", json!([])),
        with("scopes", json!(["jobs:manage"])),
        with("scopes", json!(["keys:subjects"])),
        with("scopes", json!(["admin"])),
        with("tenant", json!("other")),
        with("tenant", json!("*")),
    ] {
        ask(wider).problem(403, "FORBIDDEN");
    }
    let late = with("expiresAt", json!("2099-01-01T00:00:00Z"));
    let problem = ask(late).problem(400, "INVALID_FIELD");
    assert!(problem.to_string().contains("30 days"), "{problem}");

    let browser = customer.test_server.anonymous().with_key(made["key"].as_str().unwrap());
    browser.get("/api/jobs").send().ok(200);
    browser.post("/api/keys").json(&limited).send().problem(403, "FORBIDDEN");
    let listed = maker.get("/api/keys").send().ok(200);
    let ids: Vec<&Value> =
        listed["items"].as_array().unwrap().iter().map(|key| &key["id"]).collect();
    assert_eq!(ids, [&made["id"]]);

    let foreign = customer.owner.post("/api/keys").json(&limited).send().ok(201);
    let path = |made: &Value| format!("/api/keys/{}", made["id"].as_str().unwrap());
    maker.delete(&path(&foreign)).send().problem(403, "FORBIDDEN");
    let rotate = format!("{}/rotate", path(&foreign));
    maker.post(&rotate).json(&json!({})).send().problem(403, "FORBIDDEN");
    maker.get("/api/audit").send().problem(403, "FORBIDDEN");
    let rotate = format!("{}/rotate", path(&made));
    let second = maker.post(&rotate).json(&json!({"graceSeconds": 0})).send().ok(201);
    assert!(second["expiresAt"].is_string(), "{second}");
    browser.get("/api/jobs").send().problem(401, "UNAUTHENTICATED");
    assert_eq!(maker.delete(&path(&second)).send().status, 204);
}

/// Signing keys open the addresses of all tenants.
#[test]
fn a_maker_of_subject_keys_for_all_tenants_sees_no_signing_keys() {
    let test_server = TestServer::start();
    let admin = test_server.admin();
    let grant = json!({"name": "m", "tenant": "*", "scopes": ["keys:subjects", "jobs:read"]});
    let maker = test_server.client(grant);
    let shown = maker.get("/api/keys").send().ok(200);
    assert_eq!(shown["items"], json!([]));
    let keys = admin.get("/api/keys").send().ok(200);
    let keys = keys["items"].as_array().unwrap();
    let signing = keys.iter().find(|key| key["kind"] == "signing").unwrap();
    let path = format!("/api/keys/{}", signing["id"].as_str().unwrap());
    maker.delete(&path).send().problem(403, "FORBIDDEN");
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
