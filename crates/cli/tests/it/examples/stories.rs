//! Scenarios that clients and workers must survive, the same in every language.

use super::{Language, Program, RejectingProxy, language::node_worker, program::key};
use crate::serve::{Customer, TestServer};
use serde_json::{Value, json};
use std::sync::Arc;

/// Makes one test per language of each scenario.
macro_rules! stories {
    ($($story:ident),* $(,)?) => {
        mod python {
            $(#[test] fn $story() { super::$story(super::Language::Python); })*
        }
        mod typescript {
            $(#[test] fn $story() { super::$story(super::Language::TypeScript); })*
        }
    };
}

stories!(
    a_job_is_completed_and_its_progress_is_seen_on_the_way,
    the_handler_decides_how_a_failed_job_ends,
    the_same_key_means_the_same_job,
    a_cancel_is_heard,
    both_survive_that_the_server_is_killed,
    a_worker_that_shall_end_gives_back_what_takes_too_long,
    a_worker_that_shall_end_lets_handlers_end,
    examples_without_a_valid_key_exit_with_the_reason,
    a_report_that_is_refused_ends_the_job_with_its_reason,
    a_worker_keeps_the_lease_of_the_type,
    a_key_that_is_rejected_at_first_is_tried_again,
);

/// For workers that the test does not ask to end.
const ANY_GRACE: &str = "20";

fn a_job_is_completed_and_its_progress_is_seen_on_the_way(language: Language) {
    let customer = Customer::new();
    let _worker = Program::worker(language, &customer, ANY_GRACE);
    let words = ["email", r#"{"to": "ada@example.org", "seconds": 3}"#, "--subject", "order/7"];
    let mut client = Program::client(language, &customer, &words);
    assert_eq!(client.exit_code(), Some(0), "{}", client.output());
    let output = client.output();
    let progress = output.find(" % connecting").or_else(|| output.find(" % sending"));
    let completed = output.find("Completed, attempt 1 of ");
    assert!(progress.is_some() && progress < completed, "{output}");
    let status = customer.status(&client.job());
    assert_eq!(status["result"], json!({"sent": true}));
    assert_eq!(status["subjectId"], "order/7");
}

fn the_handler_decides_how_a_failed_job_ends(language: Language) {
    let customer = Customer::new();
    let _worker = Program::worker(language, &customer, ANY_GRACE);
    let submit = |payload: &str| Program::client(language, &customer, &["email", payload]);
    let mut retried = submit(r#"{"seconds": 0.1, "failures": 1}"#);
    let mut failed = submit(r#"{"to": "nobody"}"#);
    let mut poisoned = submit("[]");
    assert_eq!(failed.exit_code(), Some(3), "{}", failed.output());
    assert_eq!(customer.status(&failed.job())["errorCode"], "NO_ADDRESS");
    assert_eq!(poisoned.exit_code(), Some(4), "{}", poisoned.output());
    assert_eq!(customer.status(&poisoned.job())["errorCode"], "BAD_PAYLOAD");
    assert_eq!(retried.exit_code(), Some(0), "{}", retried.output());
    assert_eq!(customer.status(&retried.job())["attempt"], 2);
    let history = customer.history(&retried.job());
    assert!(history.iter().any(|row| row["errorCode"] == "SMTP_DOWN"), "{history:?}");
}

fn the_same_key_means_the_same_job(language: Language) {
    let customer = Customer::new();
    let _worker = Program::worker(language, &customer, ANY_GRACE);
    let submit_job = |payload: &str| {
        let words = ["email", payload, "--key", "order-7-mail"];
        let mut client = Program::client(language, &customer, &words);
        let code = client.exit_code();
        (code, client)
    };
    let (code, first) = submit_job(r#"{"seconds": 0}"#);
    assert_eq!(code, Some(0), "{}", first.output());
    let (code, second) = submit_job(r#"{"seconds": 0}"#);
    assert_eq!(code, Some(0), "{}", second.output());
    assert_eq!(first.job(), second.job());
    assert!(second.output().contains("known already"), "{}", second.output());
    let (code, other) = submit_job(r#"{"seconds": 1}"#);
    assert_eq!(code, Some(1), "{}", other.output());
    assert!(other.output().contains("IDEMPOTENCY_KEY_REUSED"), "{}", other.output());
}

fn a_cancel_is_heard(language: Language) {
    let customer = Customer::new();
    let _worker = Program::worker(language, &customer, ANY_GRACE);
    let mut client = Program::client(language, &customer, &["email", r#"{"seconds": 20}"#]);
    let job = client.job();
    customer.wait_for_status(&job, "Running");
    customer.owner.post(&format!("/api/jobs/{job}/cancel")).send().ok(202);
    assert_eq!(client.exit_code(), Some(5), "{}", client.output());
    assert_eq!(customer.status(&job)["status"], "Cancelled");
}

/// The sample's own handler leaves the ending of a cancelled job to the runner.
const HANDLER_WITH_A_REASON: &str = r#"
import { Fail, runWorker } from "./consign-worker.js"
const reason = () => new Fail("HALF_SENT", "3 of 5 are sent", { outcome: "cancelled" })
const email = ({ signal }) => new Promise((_, reject) => (signal.onabort = () => reject(reason())))
runWorker({ email })
"#;

#[test]
fn a_cancelled_job_keeps_the_reason_of_its_handler_in_typescript() {
    let customer = Customer::of(&Arc::new(TestServer::start()));
    customer.policy("email", json!({"lease": "4s"})); // so that the cancel is heard soon
    let worker = node_worker("handler-with-a-reason", HANDLER_WITH_A_REASON);
    let _worker = Program::with_rights(worker, &customer, &["work"]);
    let job = customer.submit(json!({"jobType": "email"}));
    customer.wait_for_status(&job, "Running");
    customer.owner.post(&format!("/api/jobs/{job}/cancel")).send().ok(202);
    let status = customer.wait_for_status(&job, "Cancelled");
    assert_eq!(status["errorCode"], "HALF_SENT", "{status}");
    assert_eq!(status["errorMessage"], "3 of 5 are sent", "{status}");
}

fn both_survive_that_the_server_is_killed(language: Language) {
    let test_server = Arc::new(TestServer::start());
    let customer = Customer::of(&test_server);
    let worker = Program::worker(language, &customer, ANY_GRACE);
    let may_enqueue = key(&customer, &["jobs:enqueue", "jobs:read"]);
    let words = ["email", r#"{"seconds": 4}"#];
    let mut client = Program::client_with(language, &customer, &may_enqueue, &words);
    client.wait_for_output(" % ");
    test_server.kill();
    worker.wait_for_output("heartbeat: ");
    client.wait_for_output("asking again");
    let mut late = Program::client_with(language, &customer, &may_enqueue, &words);
    late.wait_for_output("asking again");
    test_server.restart_in_place();
    for client in [&mut client, &mut late] {
        assert_eq!(client.exit_code(), Some(0), "{}", client.output());
        assert_eq!(statuses(&customer, &client.job()), ["Queued", "Running", "Completed"]);
    }
}

fn a_worker_that_shall_end_gives_back_what_takes_too_long(language: Language) {
    let customer = Customer::new();
    let mut worker = Program::worker(language, &customer, "0.1");
    let job = customer.submit(json!({"jobType": "email", "payload": {"seconds": 600}}));
    worker.wait_for_output("attempt 1");
    worker.terminate();
    assert_eq!(worker.exit_code(), Some(0), "{}", worker.output());
    let status = customer.status(&job);
    assert_eq!((&status["status"], &status["attempt"]), (&json!("Queued"), &json!(0)), "{status}");
    let _next = Program::worker(language, &customer, ANY_GRACE);
    assert_eq!(customer.wait_for_status(&job, "Running")["attempt"], 1);
}

fn a_worker_that_shall_end_lets_handlers_end(language: Language) {
    let customer = Customer::new();
    let mut worker = Program::worker(language, &customer, ANY_GRACE);
    let job = customer.submit(json!({"jobType": "email", "payload": {"seconds": 2}}));
    worker.wait_for_output("attempt 1");
    worker.terminate();
    assert_eq!(worker.exit_code(), Some(0), "{}", worker.output());
    assert_eq!(statuses(&customer, &job), ["Queued", "Running", "Completed"]);
    let workers = customer.owner.get("/api/workers").send().ok(200);
    assert_eq!(workers["items"], json!([]), "it signed off");
}

fn examples_without_a_valid_key_exit_with_the_reason(language: Language) {
    let customer = Customer::new();
    let starts: [(&str, &[&str]); 2] = [("worker", &[]), ("client", &["email", "{}"])];
    for (name, words) in starts {
        let start = |key| {
            let mut command = language.command(name);
            command.args(words).env("CONSIGN_PATIENCE", "1");
            Program::start(command, &customer, key)
        };
        let mut none = start("");
        assert_eq!(none.exit_code(), Some(1), "{}", none.output());
        assert!(none.output().contains("export CONSIGN_KEY=$(cat"), "{}", none.output());
        let mut wrong = start("csk_wrong");
        assert_eq!(wrong.exit_code(), Some(1), "{}", wrong.output());
        assert!(wrong.output().contains("UNAUTHENTICATED"), "{}", wrong.output());
    }
}

fn a_report_that_is_refused_ends_the_job_with_its_reason(language: Language) {
    let customer = Customer::new();
    let _worker = Program::worker(language, &customer, ANY_GRACE);
    let payload = json!({"seconds": 0, "result": "ä".repeat(2_100)}).to_string();
    let mut client = Program::client(language, &customer, &["email", &payload]);
    assert_eq!(client.exit_code(), Some(3), "{}", client.output());
    let status = customer.status(&client.job());
    assert_eq!(status["errorCode"], "INVALID_FIELD", "{status}");
    assert!(status["errorMessage"].as_str().unwrap().contains("4096 bytes"), "{status}");
}

fn a_worker_keeps_the_lease_of_the_type(language: Language) {
    let customer = Customer::of(&Arc::new(TestServer::start()));
    customer.policy("email", json!({"lease": "4s"}));
    let _worker = Program::worker(language, &customer, ANY_GRACE);
    let job = customer.submit(json!({"jobType": "email", "payload": {"seconds": 6}}));
    customer.wait_for_status(&job, "Running");
    let explained = customer.owner.get(&format!("/api/jobs/{job}/explain")).send().ok(200);
    let running = &explained["reasons"][0];
    let time =
        |name: &str| wire::parse_time("", running[name].as_str().unwrap()).unwrap().unix_ms();
    let lease_ms = time("leaseExpiresAt") - time("since");
    assert!(lease_ms < 10_000, "the worker asked for another lease: {explained}");
    assert_eq!(customer.wait_for_status(&job, "Completed")["attempt"], 1, "heartbeats extended it");
}

fn a_key_that_is_rejected_at_first_is_tried_again(language: Language) {
    let customer = Customer::new();
    let proxy = RejectingProxy::start(customer.owner.address());
    let start = |name: &str, words: &[&str], scopes: &[&str]| {
        let mut command = language.command(name);
        command.args(words);
        Program::start_at(command, &proxy.reject_next(3), &key(&customer, scopes))
    };
    let worker = start("worker", &[], &["work"]);
    worker.wait_for_output("UNAUTHENTICATED");
    let words = ["email", r#"{"seconds": 0}"#];
    let mut client = start("client", &words, &["jobs:enqueue", "jobs:read"]);
    assert_eq!(client.exit_code(), Some(0), "{}", client.output());
}

/// The states that a job went through.
fn statuses(customer: &Customer, job: &str) -> Vec<String> {
    let word = |row: &Value| row["to"].as_str().unwrap().to_owned();
    customer.history(job).iter().map(word).collect()
}
