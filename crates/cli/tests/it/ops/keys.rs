//! The commands about keys and the audit log.

use crate::{client::Prompt, serve::TestServer};
use serde_json::json;

#[test]
fn a_key_stands_alone_and_opens_what_it_should() {
    let test_server = TestServer::start();
    let prompt = Prompt::of(&test_server);
    let create = [
        "keys",
        "create",
        "billing",
        "--scope",
        "jobs:enqueue",
        "--scope",
        "jobs:read",
        "--tenant",
        "acme",
        "--type",
        "mail-*",
        "--subject",
        "order/*",
        "--expires",
        "3d",
    ];
    let created = prompt.types(&create);
    let key = created.well().trim_end().to_owned();
    assert!(key.starts_with("csk_") && !key.contains(char::is_whitespace), "{}", created.out);
    assert!(!created.err.contains(&key), "{}", created.err);
    for fact in ["billing (id ", "tenant acme", "types mail-*", "only time that it is shown"] {
        assert!(created.err.contains(fact), "{fact}: {}", created.err);
    }
    let limited = Prompt::of(&test_server).set("CONSIGN_KEY", &key);
    limited.types(&["enqueue", "mail-out", "-s", "order/1"]).well();
    assert_eq!(limited.types(&["enqueue", "fax", "-s", "order/1"]).code, Some(1));

    for words in [&["keys"][..], &["keys", "list"]] {
        let list = prompt.types(words);
        let line = list.well().lines().find(|line| line.contains("billing")).unwrap();
        for fact in ["acme", "jobs:enqueue jobs:read", "subjects order/*", "in 2 d", "ends soon"] {
            assert!(line.contains(fact), "{fact}: {line}");
        }
        assert!(!list.out.contains("csk_"), "{}", list.out);
    }
    let json = prompt.types(&["keys", "list", "--json"]).json();
    let find = |item: &&serde_json::Value| item["name"] == "billing";
    let id = json["items"].as_array().unwrap().iter().find(find).unwrap()["id"].clone();
    let revoked = prompt.types(&["keys", "revoke", id.as_str().unwrap()]);
    assert!(revoked.well().contains("401"), "{}", revoked.out);
    assert_eq!(limited.types(&["list"]).code, Some(1));
    assert!(prompt.types(&["keys"]).well().contains("revoked"));
}

#[test]
fn keys_rotate_prints_the_new_key_alone() {
    let test_server = TestServer::start();
    let prompt = Prompt::of(&test_server);
    let old = prompt.types(&["keys", "create", "shop", "--scope", "jobs:read", "--json"]).json();
    let id = old["id"].as_str().unwrap();
    let rotated = prompt.types(&["keys", "rotate", id, "--grace", "1h"]);
    let key = rotated.well().trim_end().to_owned();
    assert!(key.starts_with("csk_") && !key.contains(char::is_whitespace), "{}", rotated.out);
    assert!(rotated.err.contains(id) && !rotated.err.contains(&key), "{}", rotated.err);
    for key in [&key, old["key"].as_str().unwrap()] {
        Prompt::of(&test_server).set("CONSIGN_KEY", key).types(&["list"]).well();
    }
    let list = prompt.types(&["keys", "list"]);
    assert!(list.well().contains("LAST USED"), "{}", list.out);
    assert_eq!(prompt.types(&["keys", "rotate", id, "--grace", "soon"]).code, Some(2));
    prompt.types(&["keys", "revoke", id]).well();
    let ended = prompt.types(&["keys", "rotate", id]);
    assert!(ended.code == Some(1) && ended.err.contains("KEY_ENDED"), "{ended:?}");
}

#[test]
fn keys_create_prints_json_and_refuses_mistakes() {
    let test_server = TestServer::start();
    let prompt = Prompt::of(&test_server);
    let created =
        prompt.types(&["keys", "create", "x", "--scope", "work,jobs:read", "--json"]).json();
    assert!(created["key"].as_str().unwrap().starts_with("csk_"), "{created}");
    assert_eq!(created["scopes"].as_array().unwrap().len(), 2);
    assert_eq!(prompt.types(&["keys", "create", "x"]).code, Some(2));
    assert_eq!(
        prompt.types(&["keys", "create", "x", "--scope", "work", "--expires", "soon"]).code,
        Some(2)
    );
    let result = prompt.types(&["keys", "create", "x", "--scope", "everything"]);
    assert!(result.code == Some(1) && result.err.contains("scope"), "{result:?}");
    let result = prompt.types(&["keys", "revoke", "0000000000000000"]);
    assert!(result.code == Some(1) && result.err.contains("KEY_NOT_FOUND"), "{result:?}");
}

#[test]
fn audit_lists_what_operators_did() {
    let test_server = TestServer::start();
    let prompt = Prompt::of(&test_server);
    for job_type in ["a", "b", "c"] {
        prompt.types(&["queues", "pause", job_type]).well();
    }
    for words in [&["audit"][..], &["audit", "list"]] {
        let result = prompt.types(words);
        let lines: Vec<&str> = result.well().lines().collect();
        assert!(lines[0].starts_with("WHEN") && lines[0].contains("ACTION"), "{}", result.out);
        assert!(lines[1].contains("queue.pause") && lines[1].contains("admin"), "{}", result.out);
        assert_eq!(lines.len(), 5, "three pauses and the first key: {}", result.out);
    }
    let short = prompt.types(&["audit", "--top", "2"]);
    assert!(short.well().contains("--all shows all"), "{}", short.out);
    let all = prompt.types(&["audit", "list", "--top", "1", "--all", "--json"]).json();
    assert_eq!(all["items"].as_array().unwrap().len(), 4);
    assert_eq!(all["items"][0]["target"], json!("c"));
}
