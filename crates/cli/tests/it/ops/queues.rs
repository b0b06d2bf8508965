//! The commands about queues, workers and nodes.

use super::claim;
use crate::{client::Prompt, serve::TestServer};

#[test]
fn a_queue_is_shown_paused_and_resumed() {
    let test_server = TestServer::start();
    let prompt = Prompt::of(&test_server);
    let result = prompt.types(&["queues", "email"]);
    assert_eq!(result.code, Some(1), "{result:?}");
    assert!(result.err.contains("QUEUE_NOT_FOUND"), "{}", result.err);
    prompt.enqueues(&["email"]);
    let line = |result: &str| result.lines().nth(1).unwrap().to_owned();
    assert!(line(prompt.types(&["queues", "email"]).well()).ends_with("no worker"));
    let paused = prompt.types(&["queues", "pause", "email"]);
    assert!(line(paused.well()).ends_with("paused"), "{}", paused.out);
    assert!(paused.out.contains("consign queues resume email"), "{}", paused.out);
    assert!(claim(&test_server, "w", "email").is_empty());
    assert_eq!(prompt.types(&["queues", "email", "--json"]).json()["paused"], true);
    let resumed = prompt.types(&["queues", "resume", "email"]);
    assert!(line(resumed.well()).ends_with("open"), "{}", resumed.out);
    let json = prompt.types(&["queues", "pause", "email", "--json"]).json();
    assert_eq!((&json["jobType"], &json["paused"]), (&"email".into(), &true.into()));
    assert_eq!(prompt.types(&["queues", "pause"]).code, Some(2));
}

#[test]
fn workers_and_nodes_are_listed() {
    let test_server = TestServer::start();
    let prompt = Prompt::of(&test_server);
    assert!(prompt.types(&["workers"]).well().contains("no worker has asked for jobs yet"));
    prompt.enqueues(&["email"]);
    claim(&test_server, "w-7", "email");
    let result = prompt.types(&["workers"]);
    let line = result.well().lines().nth(1).unwrap();
    for fact in ["w-7", "machine-1", "email", "1", "live"] {
        assert!(line.contains(fact), "{fact}: {line}");
    }
    assert_eq!(prompt.types(&["workers", "--json"]).json()["items"][0]["state"], "live");
    let nodes = prompt.types(&["nodes"]);
    assert!(nodes.well().contains(env!("CARGO_PKG_VERSION")), "{}", nodes.out);
    assert!(nodes.out.contains("leads"), "one node does what one does for all: {}", nodes.out);
    let node = &prompt.types(&["nodes", "--json"]).json()["items"][0];
    assert_eq!((&node["state"], &node["leader"]), (&"live".into(), &true.into()), "{node}");
    assert!(node["lastSeenAt"].as_str() >= node["startedAt"].as_str(), "{node}");
}
