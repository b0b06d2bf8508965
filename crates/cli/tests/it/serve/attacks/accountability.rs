//! The traces of attempted and successful actions: audit log, counters and log lines.

use crate::serve::{
    Customer, TestServer,
    customer::fresh,
    forgery::{Issuer, claims},
    wait_for, wait_until,
};
use serde_json::{Value, json};
use std::sync::Arc;

fn entry(test_server: &TestServer, action: &str, target: &str) -> Value {
    let audit = test_server.admin().get("/api/audit?top=1000").send().ok(200);
    let entries = audit["items"].as_array().unwrap();
    let found = entries.iter().find(|one| one["action"] == action && one["target"] == target);
    found.unwrap_or_else(|| panic!("no {action} of {target}: {audit}")).clone()
}

fn detail(test_server: &TestServer, action: &str, target: &str) -> String {
    entry(test_server, action, target)["detail"].as_str().unwrap_or_default().into()
}

#[test]
fn the_audit_log_records_each_changed_field_of_a_type() {
    let test_server = TestServer::start();
    let set = |policy: Value| {
        test_server.admin().put("/api/types/mail").json(&policy).send().ok(200);
        detail(&test_server, "type.put", "mail")
    };
    let first = set(json!({"maxAttempts": 7, "lease": "1m"}));
    assert_eq!(first, "lease 30s → 1m; maxAttempts 10 → 7");
    let schema = json!({"type": "object", "title": "planted-in-a-schema"});
    let address = "https://hooks.example/planted-in-an-address";
    let second = set(json!({
        "maxAttempts": 7, "backoff": {"base": "1500ms", "factor": 1.5, "jitter": "none"}, "maxQueued": 5,
        "schema": schema, "handler": {"http": address},
    }));
    for change in [
        "backoff.base 5s → 1500ms",
        "backoff.factor 2 → 1.5",
        "backoff.jitter equal → none",
        "lease 1m → 30s",
        "maxQueued none → 5",
        "schema none → sha256:",
        "handler none → http https://hooks.example sha256:",
    ] {
        assert!(second.contains(change), "{change}: {second}");
    }
    assert!(!second.contains("maxAttempts") && !second.contains("planted"), "{second}");
    assert!(second.len() < 2_048, "{}", second.len());
    let third = set(json!({"maxAttempts": 7, "maxQueued": 5}));
    assert!(third.contains("schema sha256:") && third.contains("→ none"), "{third}");
    assert_eq!(set(json!({"maxAttempts": 7, "maxQueued": 5})), "nothing changed");
}

#[test]
fn the_audit_log_records_key_grants_and_pause_changes() {
    let test_server = Arc::new(TestServer::start());
    let customer = Customer::of(&test_server);
    let grant = json!({
        "name": "shop", "scopes": ["jobs:enqueue", "jobs:read"], "types": ["mail.*"], "subjects": ["order/*"],
        "expiresAt": "2031-01-01T00:00:00Z",
    });
    let made = customer.owner.post("/api/keys").json(&grant).send().ok(201);
    let id = made["id"].as_str().unwrap();
    let detail_text = detail(&test_server, "key.create", id);
    let expected = format!(
        "name \"shop\"; tenant {}; scopes jobs:enqueue jobs:read; types mail.*; subjects order/*; expiresAt 2031-01-01T00:00:00.000Z",
        customer.tenant
    );
    assert_eq!(detail_text, expected);
    assert!(!detail_text.contains(made["key"].as_str().unwrap()));
    customer.owner.delete(&format!("/api/keys/{id}")).send();
    let detail_text = detail(&test_server, "key.revoke", id);
    assert!(
        detail_text.starts_with("name \"shop\"") && detail_text.contains("revokedAt none → 20"),
        "{detail_text}"
    );
    let job_type = fresh("type");
    let ask = |verb: &str| {
        customer.owner.post(&format!("/api/queues/{job_type}/{verb}")).send().ok(200);
        detail(&test_server, &format!("queue.{verb}"), &job_type)
    };
    let tenant = &customer.tenant;
    assert_eq!(ask("pause"), format!("tenant {tenant}: active → paused"));
    assert_eq!(ask("pause"), format!("tenant {tenant}: paused already"));
    assert_eq!(ask("resume"), format!("tenant {tenant}: paused → active"));
    assert_eq!(ask("resume"), format!("tenant {tenant}: active already"));
}

/// Long lists do not make long audit entries.
#[test]
fn an_audit_entry_is_bounded() {
    let test_server = TestServer::start();
    let types: Vec<String> = (0..100).map(|n| format!("{n}{}", "x".repeat(250))).collect();
    let grant = json!({"name": "n".repeat(128), "scopes": ["work"], "types": types});
    let made = test_server.admin().post("/api/keys").json(&grant).send().ok(201);
    let detail_text = detail(&test_server, "key.create", made["id"].as_str().unwrap());
    assert!(
        detail_text.contains("types 100 sha256:") && detail_text.len() < 2_048,
        "{detail_text}"
    );
}

/// A user who reads payloads leaves a log line; a worker's claim does not.
#[test]
fn payloads_that_people_read_are_logged() {
    let customer = Customer::of(&Arc::new(TestServer::start()));
    let job_type = fresh("type");
    let id = customer.queued(&job_type);
    let read = |test_server: &TestServer| {
        let log = test_server.log();
        let lines = log.lines().filter(|line| line.contains("\"payload read\""));
        lines.map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>()
    };
    let blind = customer.client(json!({"scopes": ["jobs:read"]}));
    blind.get(&format!("/api/jobs/{id}")).send().ok(200);
    customer.claim(&job_type);
    let ask = customer.owner.get(&format!("/api/jobs/{id}")).header("x-correlation-id", "looked");
    assert!(ask.send().ok(200)["payload"].is_object());
    let lines = wait_for("the read is logged", || {
        Some(read(&customer.test_server)).filter(|l| !l.is_empty())
    });
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!(lines[0]["job"], json!(id), "{lines:?}");
    assert_eq!(lines[0]["tenant"], json!(customer.tenant), "{lines:?}");
    assert_eq!(lines[0]["correlation"], "looked", "{lines:?}");
    assert!(lines[0]["who"].as_str().unwrap().starts_with("key:"), "{lines:?}");
}

/// Failed credentials are visible, and do not fill the log.
#[test]
fn failed_credentials_are_counted_and_logged_now_and_then() {
    let test_server = TestServer::start();
    let planted = format!("csk_00000000000000aa_{}", "ab".repeat(32));
    let tries = 300;
    for _ in 0..tries {
        test_server
            .anonymous()
            .with_key(&planted)
            .get("/api/jobs")
            .send()
            .problem(401, "UNAUTHENTICATED");
    }
    test_server.anonymous().get("/api/jobs").send().problem(401, "UNAUTHENTICATED");
    test_server
        .anonymous()
        .with_key("planted-text")
        .get("/api/jobs")
        .send()
        .problem(401, "UNAUTHENTICATED");
    let id = test_server.admin().post("/api/jobs").json(&json!({"jobType": "a"})).send().ok(202);
    let forged = format!("{}?sig=1.planted", id["statusUrl"].as_str().unwrap());
    test_server.anonymous().get(&forged).send().problem(401, "UNAUTHENTICATED");
    let metrics = test_server.admin().get("/metrics").send().text();
    for (reason, count) in [("key", tries), ("missing", 1), ("token", 1), ("signature", 1)] {
        let line = format!("consign_failed_credentials_total{{reason=\"{reason}\"}} {count}\n");
        assert!(metrics.contains(&line), "{line}: {metrics}");
    }
    let lines = || -> Vec<Value> {
        let log = test_server.log();
        let lines = log.lines().filter(|line| line.contains("credentials refused"));
        lines.map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let total = |reason: &str| -> u64 {
        let ours = lines().into_iter().filter(|line| line["reason"] == reason);
        ours.map(|line| line["count"].as_u64().unwrap()).sum()
    };
    wait_until("every failure is in the log", || {
        [("key", tries), ("missing", 1), ("token", 1), ("signature", 1)]
            .into_iter()
            .all(|(reason, count)| total(reason) == count)
    });
    assert!(lines().len() < 30, "{}", lines().len());
    let log = test_server.log();
    assert!(!log.contains("planted") && !log.contains(&planted), "{log}");
}

/// An anonymous client sends many tokens: beside the line of each request, they cause one line now
/// and then.
#[test]
fn forged_tokens_are_not_a_line_each() {
    let test_server = Issuer::new().test_server();
    let forged = Issuer::new().token(&claims("jobs:read"));
    for _ in 0..50 {
        test_server
            .anonymous()
            .with_key(&forged)
            .get("/api/jobs")
            .send()
            .problem(401, "UNAUTHENTICATED");
    }
    wait_until("they are in the log", || test_server.log().contains("credentials refused"));
    let log = test_server.log();
    let lines = log.lines().filter(|line| line.contains("refused")).count();
    assert!(lines < 20, "{log}");
}
