//! The commands about types and their policies.

use crate::{client::Prompt, serve::TestServer};
use serde_json::{Value, json};
use std::fs;

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
    for fact in ["email", "yes", "1m", "100", "sh -c 'exit 75'"] {
        assert!(list.well().contains(fact), "{fact}: {}", list.out);
    }
    let one = prompt.types(&["types", "email"]);
    assert!(one.well().contains("handler          exec sh -c 'exit 75'"), "{}", one.out);
    let reset = prompt.types(&["types", "set", "email", "--reset", "--max-attempts", "7"]);
    assert!(reset.well().contains("lease            1m → 30s"), "{}", reset.out);
    assert!(reset.out.contains("max attempts     3 → 7"), "{}", reset.out);
    let shown = prompt.types(&["types", "email", "--json"]).json();
    assert_eq!((&shown["handler"], &shown["maxAttempts"]), (&Value::Null, &json!(7)));
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
