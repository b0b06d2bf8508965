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
fn a_pause_shows_who_made_it_and_why_and_a_typing_error_is_named() {
    let test_server = TestServer::start();
    let prompt = Prompt::of(&test_server);
    let job = prompt.enqueues(&["email"]);
    let reason = ["--reason", "the mail server is down"];
    let paused = prompt.types(&[&["queues", "pause", "emial"][..], &reason].concat());
    assert!(paused.well().contains("emial paused for every tenant by "), "{}", paused.out);
    assert!(
        paused.err.contains("no job, worker or declared type is named emial"),
        "{}",
        paused.err
    );
    assert!(paused.err.contains("did you mean `email`?"), "{}", paused.err);
    assert!(paused.err.contains("consign queues resume emial"), "{}", paused.err);
    assert_eq!(prompt.types(&["queues", "emial", "--json"]).json()["known"], false);
    prompt.types(&["queues", "resume", "emial"]).well();

    let of_default = ["queues", "pause", "email", "--tenant", "default"];
    let paused = prompt.types(&[&of_default[..], &reason].concat());
    let resume = "consign queues resume email --tenant default";
    assert!(paused.well().contains(resume) && paused.err.is_empty(), "{paused:?}");
    let explained = prompt.types(&["explain", &job]);
    let sentence = "the queue of email is paused for tenant default by ";
    for part in [sentence, ": the mail server is down", "since", resume] {
        assert!(explained.well().contains(part), "{part}: {}", explained.out);
    }
    let doctor = prompt.types(&["doctor"]).out;
    assert!(doctor.contains("! queue email: paused for tenant default by "), "{doctor}");
    // Of the row that sums up all tenants, only a part is paused.
    prompt.types(&["queues", "resume", "email"]).well();
    prompt.types(&["queues", "pause", "email", "--tenant", "acme"]).well();
    let result = prompt.types(&["queues", "--tenant", "default"]);
    assert!(!result.well().contains("paused"), "{}", result.out);
    let summed = prompt.types(&["queues", "email"]);
    assert!(summed.well().contains("email paused for tenant acme by "), "{}", summed.out);
}

#[test]
fn the_audit_log_is_searched_by_actor_action_and_time() {
    let test_server = TestServer::start();
    let prompt = Prompt::of(&test_server);
    prompt.types(&["queues", "pause", "email"]).well();
    prompt.types(&["queues", "resume", "email"]).well();
    let actions = |flags: &[&str]| {
        let json = prompt.types(&[&["audit", "--json"][..], flags].concat()).json();
        let items = json["items"].as_array().unwrap().clone();
        items.iter().map(|entry| entry["action"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let both = ["queue.resume", "queue.pause"];
    assert_eq!(actions(&["--action", "queue.*"]), both);
    assert_eq!(actions(&["--action", "queue.*", "--since", "1h"]), both);
    assert!(actions(&["--until", "1h"]).is_empty());
    assert_eq!(actions(&["--action", "queue.pause"]), both[1..]);
    assert!(actions(&["--actor", "nobody"]).is_empty());
    let json = prompt.types(&["audit", "--json", "--top", "1"]).json();
    let name = json["items"][0]["actorName"].as_str().unwrap();
    assert_eq!(actions(&["--actor", name, "--action", "queue.*"]), both);
    assert!(prompt.types(&["audit", "--actor", name]).well().contains(name));
    assert!(actions(&["--tenant", "acme"]).is_empty());
    let wrong = prompt.types(&["audit", "--since", "yesterday"]);
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
    assert!(wrong.err.contains("--since yesterday: must be a span"), "{}", wrong.err);
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
