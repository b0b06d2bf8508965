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
    let made = prompt.types(&create);
    let key = made.well().trim_end().to_owned();
    assert!(key.starts_with("csk_") && !key.contains(char::is_whitespace), "{}", made.out);
    assert!(!made.err.contains(&key), "{}", made.err);
    for fact in ["billing (id ", "tenant acme", "types mail-*", "only time that it is shown"] {
        assert!(made.err.contains(fact), "{fact}: {}", made.err);
    }
    let theirs = Prompt::of(&test_server).set("CONSIGN_KEY", &key);
    theirs.types(&["enqueue", "mail-out", "-s", "order/1"]).well();
    assert_eq!(theirs.types(&["enqueue", "fax", "-s", "order/1"]).code, Some(1));

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
    assert_eq!(theirs.types(&["list"]).code, Some(1));
    assert!(prompt.types(&["keys"]).well().contains("revoked"));
}

#[test]
fn keys_create_prints_json_and_refuses_mistakes() {
    let test_server = TestServer::start();
    let prompt = Prompt::of(&test_server);
    let made = prompt.types(&["keys", "create", "x", "--scope", "work,jobs:read", "--json"]).json();
    assert!(made["key"].as_str().unwrap().starts_with("csk_"), "{made}");
    assert_eq!(made["scopes"].as_array().unwrap().len(), 2);
    assert_eq!(prompt.types(&["keys", "create", "x"]).code, Some(2));
    assert_eq!(
        prompt.types(&["keys", "create", "x", "--scope", "work", "--expires", "soon"]).code,
        Some(2)
    );
    let told = prompt.types(&["keys", "create", "x", "--scope", "everything"]);
    assert!(told.code == Some(1) && told.err.contains("scope"), "{told:?}");
    let told = prompt.types(&["keys", "revoke", "0000000000000000"]);
    assert!(told.code == Some(1) && told.err.contains("KEY_NOT_FOUND"), "{told:?}");
}

#[test]
fn audit_lists_what_operators_did() {
    let test_server = TestServer::start();
    let prompt = Prompt::of(&test_server);
    for job_type in ["a", "b", "c"] {
        prompt.types(&["queues", "pause", job_type]).well();
    }
    for words in [&["audit"][..], &["audit", "list"]] {
        let told = prompt.types(words);
        let lines: Vec<&str> = told.well().lines().collect();
        assert!(lines[0].starts_with("WHEN") && lines[0].contains("ACTION"), "{}", told.out);
        assert!(lines[1].contains("queue.pause") && lines[1].contains("key:"), "{}", told.out);
        assert_eq!(lines.len(), 5, "three pauses and the first key: {}", told.out);
    }
    let short = prompt.types(&["audit", "--top", "2"]);
    assert!(short.well().contains("--all shows all"), "{}", short.out);
    let all = prompt.types(&["audit", "list", "--top", "1", "--all", "--json"]).json();
    assert_eq!(all["items"].as_array().unwrap().len(), 4);
    assert_eq!(all["items"][0]["target"], json!("c"));
}
