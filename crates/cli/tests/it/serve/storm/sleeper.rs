//! A worker that is too slow every time: it reports when somebody else has had its job for long.

use super::{book::Book, named};
use serde_json::{Value, json};

/// So often; each takes a lease's length at least.
const TIMES: usize = 6;

pub(super) fn oversleep(book: &Book) {
    for number in 0..TIMES {
        let ask = book.claim_ask("sleeper", &named("nap", 0, number), 1, 1);
        let jobs = book.note_claim(&book.ask(&ask));
        if book.is_over() {
            return;
        }
        if let [job] = &jobs[..] {
            report_too_late(book, job);
        }
    }
}

fn report_too_late(book: &Book, job: &Value) {
    let path = format!("/api/jobs/{}/status", job["jobId"].as_str().unwrap());
    let ask = book.client.get(&format!("{path}?wait=1"));
    while !is_taken(&book.ask(&ask).ok(200), job) {}
    let told = book.settle(job, &json!({"outcome": "completed"}));
    let told = told.expect_err("somebody else has it");
    assert_eq!(told, "LEASE_LOST");
    book.pages().counts.overslept += 1;
}

/// Whether somebody has begun it after this worker. Ended under another attempt is as good.
fn is_taken(status: &Value, job: &Value) -> bool {
    status["attempt"].as_u64() > job["attempt"].as_u64()
}
