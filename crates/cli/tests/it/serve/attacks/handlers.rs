//! Programs and addresses that the API names.

use crate::{
    consign,
    serve::{Customer, TestServer, wait_until},
};
use serde_json::json;
use std::{fs, path::PathBuf, sync::Arc};

/// The admin key of a fresh installation could run any program as the server's user.
#[test]
fn the_api_cannot_set_programs_by_default() {
    let test_server = Arc::new(TestServer::start());
    let marker = test_server.data().join("ran");
    let script = format!("touch {}", marker.display());
    let policy = json!({"handler": {"exec": ["sh", "-c", script]}});
    let answer = test_server.admin().put("/api/types/evil").json(&policy).send();
    let problem = answer.problem(400, "INVALID_FIELD");
    assert_eq!(problem["errors"][0]["pointer"], "/handler/exec", "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("[handlers] exec"), "{problem}");
    let types = test_server.admin().get("/api/types").send().ok(200);
    assert_eq!(types["items"], json!([]), "nothing was set");
    // A job of the type waits for a worker, and gets one that is not the program.
    let customer = Customer::of(&test_server);
    let id = customer.queued("evil");
    assert_eq!(customer.reasons(&id), ["NO_LIVE_WORKER"]);
    let job = customer.claim("evil");
    assert_eq!(customer.settle(&job, json!({"outcome": "completed"}))["status"], "Completed");
    assert!(!marker.exists());
}

/// A client can read a policy of the file, send it back, and change all but its program.
#[test]
fn the_api_may_keep_a_program_that_the_file_set() {
    let test_server =
        TestServer::with("[types.report]\nhandler.exec = [\"echo\", \"from the file\"]");
    let admin = test_server.admin();
    let mut shown = admin.get("/api/types").send().ok(200)["items"][0].clone();
    shown["maxAttempts"] = json!(7);
    let set = admin.put("/api/types/report").json(&shown).send().ok(200);
    assert_eq!((&set["maxAttempts"], &set["handler"]), (&json!(7), &shown["handler"]));
    shown["handler"] = json!({"exec": ["echo", "from the file", "and more"]});
    admin.put("/api/types/report").json(&shown).send().problem(400, "INVALID_FIELD");
}

/// A key for some types of all tenants could name a program for them.
#[test]
fn handlers_are_named_by_those_without_limits() {
    let test_server = Arc::new(TestServer::with("[handlers]\nexec = \"all\""));
    let limited = |more: serde_json::Value| {
        let mut grant = json!({"name": "l", "tenant": "*", "scopes": ["admin"]});
        grant.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        test_server.client(grant)
    };
    let mail = limited(json!({"types": ["mail*"]}));
    for handler in [json!({"exec": ["true"]}), json!({"http": "https://a.example/"})] {
        let policy = json!({"handler": handler});
        mail.put("/api/types/mail").json(&policy).send().problem(403, "FORBIDDEN");
        let owner = Customer::of(&test_server).owner;
        owner.put("/api/types/mail").json(&policy).send().problem(403, "FORBIDDEN");
    }
    mail.put("/api/types/mail").json(&json!({"maxAttempts": 2})).send().ok(200);
    let policy = json!({"handler": {"exec": ["echo", "hello"]}});
    test_server.admin().put("/api/types/mail").json(&policy).send().ok(200);
    let kept = json!({"maxAttempts": 4, "handler": {"exec": ["echo", "hello"]}});
    mail.put("/api/types/mail").json(&kept).send().ok(200);
    let other = json!({"handler": {"exec": ["echo", "evil"]}});
    mail.put("/api/types/mail").json(&other).send().problem(403, "FORBIDDEN");
    let customer = Customer::of(&test_server);
    let id = customer.queued("mail");
    assert_eq!(customer.wait_for_status(&id, "Completed")["message"], "hello");
}

/// Addresses have the same switch.
#[test]
fn the_api_cannot_set_addresses_reserved_to_the_file() {
    let named = "[types.mail]\nhandler.http = \"https://a.example/\"\n";
    let put = |test_server: &TestServer, url: &str| {
        let policy = json!({"handler": {"http": url}});
        test_server.admin().put("/api/types/mail").json(&policy).send()
    };
    let file = TestServer::with(&format!("[handlers]\nhttp = \"file\"\n{named}"));
    put(&file, "https://a.example/").ok(200);
    let problem = put(&file, "https://evil.example/").problem(400, "INVALID_FIELD");
    assert_eq!(problem["errors"][0]["pointer"], "/handler/http", "{problem}");
    assert!(!problem.to_string().contains("evil"), "{problem}");
    let off = TestServer::with(&format!("[handlers]\nhttp = \"off\"\n{named}"));
    let message = "the ready-made handler cannot run";
    wait_until("the file's address is not asked", || off.log().contains(message));
    put(&off, "https://b.example/").problem(400, "INVALID_FIELD");
    let open = TestServer::start();
    put(&open, "https://a.example/").ok(200);
}

#[test]
fn a_server_that_takes_programs_by_api_warns() {
    let folder = tempfile::TempDir::new().unwrap();
    let config: PathBuf = folder.path().join("consign.toml");
    let check = |text: &str| {
        fs::write(&config, text).unwrap();
        consign(folder.path(), &["config", "check"]).out
    };
    let message = "handlers.exec is \"all\"";
    assert!(check("[handlers]\nexec = \"all\"").contains(message));
    for quiet in ["", "[handlers]\nexec = \"file\"", "[handlers]\nexec = \"off\""] {
        assert!(!check(quiet).contains("handlers.exec"), "{quiet}");
    }
    let test_server = TestServer::with("[handlers]\nexec = \"all\"");
    assert!(test_server.log().contains("handlers.exec is \\\"all\\\""), "{}", test_server.log());
    assert!(!TestServer::start().log().contains("handlers.exec"));
}
