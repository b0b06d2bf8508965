//! Commands about jobs.

use super::Prompt;
use crate::serve::TestServer;
use serde_json::json;

#[test]
fn enqueue_submits_a_job_and_status_shows_it() {
    let test_server = TestServer::start();
    let prompt = Prompt::of(&test_server);
    let words = ["enqueue", "email", "--payload", r#"{"to":"ada"}"#, "-s", "order/7", "-k", "k-1"];
    let output = prompt.types(&words);
    let id = output.well().split("  ").next().unwrap().to_owned();
    assert!(output.out.contains("Queued") && output.err.is_empty(), "{output:?}");
    let again = prompt.types(&words);
    assert!(again.well().starts_with(&id) && again.out.contains("before"), "{again:?}");

    let status = prompt.types(&["status", &id]);
    for fact in [&format!("job          {id}"), "subject      order/7", "status       Queued"] {
        assert!(status.well().contains(fact), "{}", status.out);
    }
    assert!(status.out.contains("ago") || status.out.contains("now"), "{}", status.out);
    let wide = prompt.types(&["status", &id, "-o", "wide"]);
    assert!(wide.well().contains("created      20"), "{}", wide.out);
    let json = prompt.types(&["status", &id, "--json"]).json();
    let over_http = test_server.admin().get(&format!("/api/jobs/{id}/status")).send().json();
    assert_eq!(json, over_http);
}

#[test]
fn payloads_come_from_files_and_pipes() {
    let test_server = TestServer::start();
    let prompt = Prompt::of(&test_server);
    std::fs::write(prompt.home().join("p.json"), "{\"n\": 12345678901234567890}\n").unwrap();
    let of = |id: &str| test_server.admin().get(&format!("/api/jobs/{id}")).send();
    let id = prompt.enqueues(&["email", "-p", "@p.json", "--payload-version", "2"]);
    assert!(of(&id).text().contains("12345678901234567890"), "digits stay");
    assert_eq!(of(&id).json()["payloadVersion"], 2);
    let output = prompt.types_into(&["enqueue", "email", "-p", "-", "--json"], "[1, 2]");
    assert_eq!(of(output.json()["jobId"].as_str().unwrap()).json()["payload"], json!([1, 2]));
    let output = prompt.types(&["enqueue", "email", "-p", "hello"]);
    assert_eq!(output.code, Some(2), "{output:?}");
    assert!(output.err.contains("the payload is no JSON"), "{}", output.err);
}

#[test]
fn lists_are_tables_for_people_and_pages_for_programs() {
    let test_server = TestServer::start();
    let prompt = Prompt::of(&test_server);
    assert!(prompt.types(&["list"]).well().contains("no job fits"));
    assert!(prompt.types(&["queues"]).well().contains("no queue yet"));
    for at in 0..3 {
        prompt.enqueues(&["email", "-s", &format!("order/{at}"), "--delay", "1h"]);
    }
    let report = prompt.enqueues(&["report", "--correlation", "c-9"]);

    let output = prompt.types(&["list", "--type", "email", "--since", "1h", "--status", "queued"]);
    let lines: Vec<&str> = output.well().lines().collect();
    assert_eq!(lines.len(), 4, "{}", output.out);
    assert!(lines[0].starts_with("JOB ") && lines[0].contains("SUBJECT"), "{}", output.out);
    assert!(lines[1].contains("order/2") && lines[1].contains("in 59 min"), "{}", output.out);
    let page = prompt.types(&["list", "--correlation", "c-9", "--json"]).json();
    assert_eq!(page["items"][0]["jobId"], json!(report));
    assert_eq!(page["nextCursor"], json!(null));
    let short = prompt.types(&["list", "--top", "2"]);
    assert!(short.well().contains("--all shows all"), "{}", short.out);
    assert_eq!(
        prompt.types(&["list", "--all", "-o", "json"]).json()["items"].as_array().unwrap().len(),
        4
    );

    let queues = prompt.types(&["queues"]);
    assert!(
        queues.well().lines().any(|line| line.starts_with("report") && line.ends_with("no worker")),
        "{}",
        queues.out
    );
    assert_eq!(prompt.types(&["queues", "--json"]).json()["items"][0]["jobType"], "email");
}

#[test]
fn server_text_cannot_control_the_terminal() {
    let test_server = TestServer::start();
    let prompt = Prompt::of(&test_server);
    let evil = "a\u{9b}2J\u{202e}b";
    let id = prompt.enqueues(&["email", "-s", evil]);
    for words in [&["status", &id][..], &["list"], &["list", "-o", "wide"], &["list", "--json"]] {
        let output = prompt.types(words);
        let bad = |letter: char| (letter.is_control() && letter != '\n') || letter == '\u{202e}';
        assert!(!output.well().contains(bad), "{words:?}: {:?}", output.out);
    }
    let subject = prompt.types(&["status", &id, "--json"]).json()["subjectId"].clone();
    assert_eq!(subject, evil, "and programs read what was written");
}
