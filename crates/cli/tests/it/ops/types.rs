//! The commands about types and their policies.

use crate::{client::Prompt, serve::TestServer};
use serde_json::{Value, json};
use std::{fs, thread};

#[test]
fn types_set_changes_only_the_given_fields() {
    let test_server = TestServer::with("[handlers]\nexec = \"all\"");
    let prompt = Prompt::of(&test_server);
    assert!(prompt.types(&["types"]).well().contains("no type yet"));
    assert_eq!(prompt.types(&["types", "email"]).code, Some(1));
    let result = prompt.types(&["types", "set", "email", "--lease", "1m", "--max-queued", "100"]);
    assert!(result.well().contains("lease            30s → 1m"), "{}", result.out);
    assert!(result.out.contains("max queued       none → 100"), "{}", result.out);
    assert!(!result.out.contains("timeout"), "{}", result.out);
    let exec = ["types", "set", "email", "--handler-exec", "sh -c 'exit 75'", "--concurrency", "4"];
    prompt.types(&exec).well();
    let shown = prompt.types(&["types", "email", "--json"]).json();
    assert_eq!((&shown["lease"], &shown["maxQueued"]), (&json!("1m"), &json!(100)));
    assert_eq!(shown["handler"]["exec"], json!(["sh", "-c", "exit 75"]));
    let list = prompt.types(&["types"]);
    for fact in ["email", "api", "1m", "100", "sh -c 'exit 75'"] {
        assert!(list.well().contains(fact), "{fact}: {}", list.out);
    }
    let one = prompt.types(&["types", "email"]);
    assert!(one.well().contains("handler          exec sh -c 'exit 75'"), "{}", one.out);
    let reset = prompt.types(&["types", "set", "email", "--reset", "--max-attempts", "7"]);
    assert!(reset.well().contains("lease            1m → 30s"), "{}", reset.out);
    assert!(reset.out.contains("max attempts     10 → 7"), "{}", reset.out);
    let shown = prompt.types(&["types", "email", "--json"]).json();
    assert_eq!((&shown["handler"], &shown["maxAttempts"]), (&Value::Null, &json!(7)));
}

/// The file wins at the next start. The operator reads so in the answer, in the list, and in the
/// log of the node that sets the type again.
#[test]
fn a_change_of_a_type_of_the_file_is_undone_with_a_word() {
    let test_server = TestServer::with("[types.email]\nmax_attempts = 5\n[types.fax]");
    let prompt = Prompt::of(&test_server);
    let shown = |job_type: &str| prompt.types(&["types", job_type, "--json"]).json();
    let owner = |job_type: &str| {
        let shown = shown(job_type);
        (shown["owner"].clone(), shown["changedByApi"].clone())
    };
    assert_eq!(owner("email"), (json!("file"), json!(false)));
    prompt.types(&["types", "set", "sms", "--lease", "1m"]).well();
    assert_eq!(owner("sms"), (json!("api"), json!(false)));
    prompt.types(&["enqueue", "letter"]).well();
    assert_eq!(owner("letter"), (Value::Null, json!(false)));

    let set = prompt.types(&["types", "set", "email", "--max-attempts", "9"]);
    assert!(set.well().contains("5 → 9") && set.err.contains("consign.toml"), "{set:?}");
    let patch = json!({"lease": "1m"});
    let answer = test_server.admin().ask("PATCH", "/api/types/email").json(&patch).send().ok(200);
    assert!(answer["warning"].as_str().unwrap().contains("consign.toml"), "{answer}");
    assert_eq!(owner("email"), (json!("file"), json!(true)));
    assert!(prompt.types(&["types"]).well().contains("file, changed since"));
    let other = prompt.types(&["types", "set", "sms", "--lease", "2m"]);
    assert!(other.well().contains("1m → 2m") && other.err.is_empty(), "{other:?}");

    assert!(test_server.stop().success());
    let log_before = test_server.log();
    assert!(!log_before.contains("that the API had set"), "{log_before}");
    test_server.restart();
    let prompt = Prompt::of(&test_server);
    let shown = prompt.types(&["types", "email", "--json"]).json();
    assert_eq!((&shown["maxAttempts"], &shown["changedByApi"]), (&json!(5), &json!(false)));
    let log = test_server.log();
    let overridden: Vec<&str> =
        log.lines().filter(|line| line.contains("that the API had set")).collect();
    assert_eq!(overridden.len(), 1, "{log}");
    assert!(overridden[0].contains("email"), "{log}");
}

#[test]
fn a_type_that_leaves_the_file_keeps_its_policy() {
    let test_server = TestServer::with("[types.email]\nmax_attempts = 5");
    assert!(test_server.stop().success());
    fs::write(test_server.data().parent().unwrap().join("consign.toml"), "").unwrap();
    test_server.restart();
    let shown = Prompt::of(&test_server).types(&["types", "email", "--json"]).json();
    assert_eq!((&shown["maxAttempts"], &shown["owner"]), (&json!(5), &json!("api")));
}

/// Two operators who change different settings of one type at the same moment.
#[test]
fn changes_of_different_fields_at_once_are_all_kept() {
    let test_server = TestServer::start();
    let fields = [
        json!({"lease": "1m"}),
        json!({"timeout": "2m"}),
        json!({"maxAttempts": 7}),
        json!({"maxQueued": 9}),
        json!({"backoff": {"base": "9s"}}),
        json!({"backoff": {"max": "1h"}}),
    ];
    thread::scope(|scope| {
        for patch in &fields {
            let admin = test_server.admin();
            scope.spawn(move || {
                admin.ask("PATCH", "/api/types/email").json(patch).send().ok(200);
            });
        }
    });
    let shown = Prompt::of(&test_server).types(&["types", "email", "--json"]).json();
    for (field, value) in [("lease", json!("1m")), ("timeout", json!("2m"))] {
        assert_eq!(shown[field], value, "{shown}");
    }
    assert_eq!((&shown["maxAttempts"], &shown["maxQueued"]), (&json!(7), &json!(9)));
    let backoff = &shown["backoff"];
    assert_eq!((&backoff["base"], &backoff["max"]), (&json!("9s"), &json!("1h")));
    let null = json!({"maxQueued": null, "backoff": {"base": null}});
    let set = test_server.admin().ask("PATCH", "/api/types/email").json(&null).send().ok(200);
    assert_eq!((&set["maxQueued"], &set["backoff"]["max"]), (&Value::Null, &json!("1h")));
    assert_ne!(set["backoff"]["base"], "9s");
}

#[test]
fn a_schema_comes_from_a_file_and_goes_again() {
    let test_server = TestServer::start();
    let prompt = Prompt::of(&test_server);
    let schema = json!({"type": "object", "required": ["to"]});
    fs::write(prompt.home().join("s.json"), schema.to_string()).unwrap();
    prompt.types(&["types", "set", "email", "--schema", "@s.json"]).well();
    let refused = prompt.types(&["enqueue", "email", "-p", "{}"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    // A change of another setting leaves it as it is.
    prompt.types(&["types", "set", "email", "--retention", "10d"]).well();
    let json = prompt.types(&["types", "set", "email", "--timeout", "5m", "--json"]).json();
    assert_eq!(json["schema"], schema);
    let result = prompt.types(&["types", "set", "email", "--schema", "none"]);
    assert!(result.well().contains("→ none"), "{}", result.out);
    prompt.types(&["enqueue", "email", "-p", "{}"]).well();
    let wrong = prompt.types(&["types", "set", "email", "--lease", "soon"]);
    assert!(wrong.code == Some(1) && wrong.err.contains("lease"), "{wrong:?}");
    for words in [
        &["types", "set", "email", "--schema", "s.json"][..],
        &["types", "set", "email", "--max-queued", "many"],
        &["types", "set", "email", "--handler-exec", "a 'b"],
        &["types", "set", "email", "--no-handler", "--handler-http", "https://x.example"],
    ] {
        assert_eq!(prompt.types(words).code, Some(2), "{words:?}");
    }
}

/// Internal addresses and command lines are not for every reader of jobs.
#[test]
fn handlers_are_shown_to_those_who_may_set_them() {
    let test_server = TestServer::start();
    let set = json!({"handler": {"http": "http://10.0.0.7/secret-place"}});
    test_server.admin().put("/api/types/email").json(&set).send().ok(200);
    let handler = |grant: Value| {
        let shown = test_server.client(grant).get("/api/types").send().ok(200);
        assert_eq!(shown["items"][0]["jobType"], "email", "{shown}");
        shown["items"][0]["handler"].clone()
    };
    let admin = test_server.admin().get("/api/types").send().ok(200);
    assert_eq!(admin["items"][0]["handler"], set["handler"]);
    let all = json!({"name": "all", "tenant": "*", "scopes": ["admin"], "types": ["email"]});
    assert_eq!(handler(all), set["handler"]);
    for grant in [
        json!({"name": "reader", "tenant": "*", "scopes": ["jobs:read", "jobs:manage", "work"]}),
        json!({"name": "tenant", "tenant": "a", "scopes": ["admin"]}),
        json!({"name": "both", "tenant": "a", "scopes": ["jobs:read"]}),
    ] {
        assert_eq!(handler(grant.clone()), Value::Null, "{grant}");
    }
}
