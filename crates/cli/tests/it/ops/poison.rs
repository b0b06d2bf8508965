//! The commands about the poison queue.

use super::poison;
use crate::{client::Prompt, serve::TestServer};
use serde_json::json;

#[test]
fn poison_is_counted_by_reason_and_listed() {
    let test_server = TestServer::start();
    let prompt = Prompt::of(&test_server);
    assert!(prompt.types(&["poison"]).well().contains("no job waits for a person"));
    let pages = poison(&test_server, &prompt, "page", "NO_PAGE", 3);
    poison(&test_server, &prompt, "email", "BAD_ADDRESS", 1);
    let result = prompt.types(&["poison"]);
    let lines: Vec<&str> = result.well().lines().collect();
    assert!(lines[1].starts_with("BAD_ADDRESS") && lines[1].contains('1'), "{}", result.out);
    assert!(lines[2].starts_with("NO_PAGE") && lines[2].contains('3'), "{}", result.out);
    for fact in [&pages[0], "order/2", "there is no such page", "consign poison redrive --type "] {
        assert!(result.out.contains(fact), "{fact}: {}", result.out);
    }
    let one = prompt.types(&["poison", "--type", "page", "--top", "1"]);
    assert!(one.well().contains("--all shows all") && !one.out.contains("BAD_ADDRESS"));
    let json = prompt.types(&["poison", "--all", "--error-code", "NO_PAGE", "--json"]).json();
    assert_eq!(json["items"].as_array().unwrap().len(), 3);
    assert_eq!(json["counts"]["NO_PAGE"], 3);
}

#[test]
fn poison_actions_count_their_jobs_before_and_after() {
    let test_server = TestServer::start();
    let prompt = Prompt::of(&test_server);
    let pages = poison(&test_server, &prompt, "page", "NO_PAGE", 3);
    poison(&test_server, &prompt, "email", "BAD_ADDRESS", 2);
    let redrive =
        ["poison", "redrive", "--type", "page", "--error-code", "NO_PAGE"].map(str::to_owned);
    let redrive: Vec<&str> = redrive.iter().map(String::as_str).collect();
    let result = prompt.types(&redrive);
    assert_eq!(result.code, Some(2), "no person can be asked: {result:?}");
    assert!(
        result.err.contains("redrive 3 jobs?") && result.err.contains("--yes"),
        "{}",
        result.err
    );
    assert_eq!(test_server.admin().get("/api/queues/page").send().ok(200)["poisoned"], 3);
    let result = prompt.types(&[&redrive[..], &["--yes"]].concat());
    assert!(result.well().contains("3 jobs got another life"), "{}", result.out);
    assert!(result.out.contains("consign queues page"), "{}", result.out);
    assert!(result.err.contains("3 jobs will get another life"), "{}", result.err);
    assert_eq!(test_server.admin().get("/api/queues/page").send().ok(200)["queued"], 3);

    let again = prompt.types(&["poison", "redrive", &pages[0], "--json"]);
    let answer: serde_json::Value = serde_json::from_str(&again.out).unwrap();
    assert_eq!((again.code, &answer["matched"]), (Some(1), &json!(0)), "{again:?}");
    assert_eq!(answer["passedOver"], 1);
    let filter = ["poison", "discard", "-f", "subjectId eq 'order/0'", "--yes"];
    assert!(prompt.types(&filter).well().contains("1 job left the poison queue"));
    let rest = prompt.types(&["poison", "discard", "--everything", "--yes", "--json"]);
    assert_eq!(rest.json()["matched"], 1);
    let list = prompt.types(&["list", "--status", "poisoned"]);
    assert!(list.well().contains("discarded "), "{}", list.out);
    let none = prompt.types(&["poison", "discard", "--everything"]);
    assert!(none.well().contains("no poisoned job matches"), "{}", none.out);
    assert!(prompt.types(&["poison"]).well().contains("no job waits for a person"));
}

#[test]
fn poison_actions_need_exactly_one_selection() {
    let unconfigured = Prompt::unconfigured().set("CONSIGN_URL", "http://127.0.0.1:1");
    for words in [
        &["poison", "redrive"][..],
        &["poison", "discard", "--yes"],
        &["poison", "redrive", "id", "--everything"],
        &["poison", "redrive", "--type", "a", "--everything"],
    ] {
        assert_eq!(unconfigured.types(words).code, Some(2), "{words:?}");
    }
}
