//! `history`, `explain` and the remedies that they print.

use super::{Prompt, claim, settle};
use crate::serve::TestServer;
use serde_json::json;

fn poisoned(test_server: &TestServer, prompt: &Prompt) -> String {
    let id = prompt.enqueues(&["email", "-p", r#"{"to": "ada"}"#]);
    let job = claim(test_server, "email");
    let (code, message) = ("SMTP_DOWN", "no\u{9b}route");
    settle(
        test_server,
        &job,
        json!({"outcome": "poisoned", "errorCode": code, "errorMessage": message}),
    );
    id
}

#[test]
fn history_and_show_print_the_life_of_a_job() {
    let test_server = TestServer::start();
    let prompt = Prompt::of(&test_server);
    let id = poisoned(&test_server, &prompt);
    let output = prompt.types(&["history", &id]);
    let lines: Vec<&str> = output.well().lines().collect();
    assert!(lines[0].contains("FROM") && lines.len() == 4, "{}", output.out);
    assert!(lines[3].contains("Poisoned") && lines[3].contains("SMTP_DOWN"), "{}", output.out);
    let http = test_server.admin().get(&format!("/api/jobs/{id}/history")).send().json();
    assert_eq!(prompt.types(&["history", &id, "--json"]).json(), http);

    let output = prompt.types(&["show", &id]);
    assert!(output.well().contains(r#"payload      {"to": "ada"}"#), "{}", output.out);
    assert!(output.out.contains("SMTP_DOWN: noroute"), "{}", output.out);
    let http = test_server.admin().get(&format!("/api/jobs/{id}")).send().json();
    assert_eq!(prompt.types(&["show", &id, "--json"]).json(), http);
}

#[test]
fn every_reason_comes_with_what_mends_it() {
    let test_server = TestServer::start();
    let prompt = Prompt::of(&test_server);
    let id = prompt.enqueues(&["email"]);
    let output = prompt.types(&["explain", &id]);
    assert!(output.well().contains("NO_LIVE_WORKER: "), "{}", output.out);
    assert!(output.out.contains("consign work --type email"), "{}", output.out);
    let paused = test_server.admin().post("/api/queues/email/pause").send();
    assert_eq!(paused.status, 200, "{}", paused.text());
    let output = prompt.types(&["explain", &id]);
    assert!(output.well().contains("cure    consign queues resume email"), "{}", output.out);
    let later = prompt.enqueues(&["report", "--delay", "2h"]);
    assert!(prompt.types(&["explain", &later]).well().contains("when    in 119 min ("));
    let codes = prompt.types(&["explain", &id, "--json"]).json();
    assert!(
        codes["reasons"].as_array().unwrap().iter().any(|reason| reason["code"] == "QUEUE_PAUSED")
    );
}

#[test]
fn ended_jobs_get_another_life_and_waiting_ones_are_stopped() {
    let test_server = TestServer::start();
    let prompt = Prompt::of(&test_server);
    let id = poisoned(&test_server, &prompt);
    let output = prompt.types(&["explain", &id]);
    assert!(output.well().contains(&format!("consign redrive {id}")), "{}", output.out);
    assert!(prompt.types(&["redrive", &id, "--max-attempts", "9"]).well().contains("Queued"));
    assert_eq!(prompt.types(&["status", &id, "--json"]).json()["maxAttempts"], 9);
    assert!(prompt.types(&["cancel", &id]).well().contains("Cancelled"));
    let again = prompt.types(&["redrive", &id, "01a1e17f-dec5-7ff8-81e3-73a73ebb528a"]);
    assert_eq!(again.code, Some(1), "one of two is done: {again:?}");
    assert!(again.out.contains("Queued") && again.err.contains("JOB_NOT_FOUND"), "{again:?}");
}

#[test]
fn a_bulk_cancel_needs_confirmation() {
    let test_server = TestServer::start();
    let prompt = Prompt::of(&test_server);
    for _ in 0..3 {
        prompt.enqueues(&["email"]);
    }
    let other = prompt.enqueues(&["report"]);
    let asked = prompt.types(&["cancel", "--type", "email"]);
    assert_eq!(asked.code, Some(2), "{asked:?}");
    assert!(asked.err.contains("--yes"), "{}", asked.err);
    assert!(prompt.types(&["cancel", "--type", "email", "--yes"]).well().starts_with("3 jobs"));
    assert_eq!(
        prompt.types(&["list", "--status", "cancelled", "--json"]).json()["items"]
            .as_array()
            .unwrap()
            .len(),
        3
    );
    assert_eq!(prompt.types(&["status", &other, "--json"]).json()["status"], "Queued");
    assert_eq!(prompt.types(&["cancel"]).code, Some(2));
    assert_eq!(prompt.types(&["cancel", &other, "--type", "email"]).code, Some(2));
}

#[test]
fn many_jobs_come_from_json_lines() {
    let test_server = TestServer::start();
    let prompt = Prompt::of(&test_server);
    let lines: String = (0..1_500)
        .map(|at| format!("{{\"subjectId\": \"order/{at}\", \"idempotencyKey\": \"k{at}\"}}\n"))
        .collect();
    let output = prompt.types_into(&["enqueue", "email", "--batch", "-", "--json"], &lines);
    assert_eq!(output.well().lines().count(), 1_500);
    let queue = test_server.admin().get("/api/queues/email").send().json();
    assert_eq!(queue["queued"], 1_500);
    let again = prompt.types_into(&["enqueue", "email", "--batch", "-"], &lines);
    assert!(again.well().lines().all(|line| line.ends_with("under this key)")));
    assert!(again.err.contains("1500 jobs"), "{}", again.err);
    assert_eq!(test_server.admin().get("/api/queues/email").send().json()["queued"], 1_500);

    let wrong = "{\"jobType\": \"email\"}\n\nnonsense\n";
    let output = prompt.types_into(&["enqueue", "--batch", "-"], wrong);
    assert!(output.code == Some(2) && output.err.contains("line 3"), "{output:?}");
    let output = prompt.types_into(&["enqueue", "--batch", "-"], "{}\n");
    assert!(output.code == Some(2) && output.err.contains("no jobType"), "{output:?}");
}

#[test]
fn dead_ends_of_a_selection_are_counted_and_redriven() {
    let test_server = TestServer::start();
    let prompt = Prompt::of(&test_server);
    poisoned(&test_server, &prompt);
    for _ in 0..2 {
        let id = prompt.enqueues(&["email"]);
        prompt.types(&["cancel", &id]).well();
    }
    let waiting = prompt.enqueues(&["report"]);
    let dead_ends = ["redrive", "--status", "poisoned,cancelled", "--type", "email,report"];
    let counted = prompt.types(&[&dead_ends[..], &["--dry-run"]].concat());
    assert_eq!(counted.well(), "3 jobs would be redriven\n");
    let asked = prompt.types(&dead_ends);
    assert_eq!(asked.code, Some(2));
    assert!(asked.err.contains("redrive 3 jobs?") && asked.err.contains("--yes"), "{}", asked.err);
    let done = prompt.types(&[&dead_ends[..], &["--yes", "--json"]].concat()).json();
    assert_eq!((&done["matched"], &done["passedOver"]), (&json!(3), &json!(0)), "{done}");
    assert_eq!(
        prompt.types(&["list", "--status", "queued", "--json"]).json()["items"][0]["jobId"],
        waiting
    );
    let again = prompt.types(&[&dead_ends[..], &["--yes"]].concat());
    assert_eq!(again.well(), "0 jobs were redriven\n");
    for wrong in [
        &["redrive"][..],
        &["redrive", &waiting, "--type", "email"],
        &["redrive", &waiting, "--dry-run"],
    ] {
        assert_eq!(prompt.types(wrong).code, Some(2), "{wrong:?}");
    }
}

#[test]
fn a_redrive_with_a_corrected_payload_is_for_one_job() {
    let test_server = TestServer::start();
    let prompt = Prompt::of(&test_server);
    let id = poisoned(&test_server, &prompt);
    let both = prompt.types(&["redrive", &id, &id, "--payload", "{}"]);
    assert!(both.code == Some(2) && both.err.contains("name that job alone"), "{both:?}");
    let corrected = r#"{"to": "ada@example.org"}"#;
    prompt.types(&["redrive", &id, "--payload", corrected]).well();
    let shown = prompt.types(&["show", &id]);
    assert!(shown.well().contains(corrected), "{}", shown.out);
}

#[test]
fn a_key_goes_to_a_new_job_where_the_user_says_so() {
    let test_server = TestServer::start();
    let prompt = Prompt::of(&test_server);
    let first = prompt.enqueues(&["email", "-k", "k"]);
    prompt.types(&["cancel", &first]).well();
    assert_eq!(prompt.enqueues(&["email", "-k", "k"]), first);
    let second = prompt.enqueues(&["email", "-k", "k", "--on-ended", "new"]);
    assert_ne!(second, first);
    assert_eq!(prompt.enqueues(&["email", "-k", "k", "--on-ended", "new"]), second);
    let wrong = prompt.types(&["enqueue", "email", "-k", "k", "--on-ended", "never"]);
    assert!(wrong.code == Some(2) && wrong.err.contains("new"), "{wrong:?}");
}

#[test]
fn a_cancel_reaches_the_children_where_the_user_says_so() {
    let test_server = TestServer::start();
    let prompt = Prompt::of(&test_server);
    let parent = prompt.enqueues(&["email"]);
    let child = prompt.enqueues(&["report", "--parent", &parent]);
    let done = prompt.types(&["cancel", &parent, "--cascade"]);
    assert!(done.well().contains("Cancelled"), "{}", done.out);
    assert!(done.err.contains("1 job below"), "{}", done.err);
    assert_eq!(prompt.types(&["status", &child, "--json"]).json()["status"], "Cancelled");
}
