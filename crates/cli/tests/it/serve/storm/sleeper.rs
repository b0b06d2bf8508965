//! A worker that is too slow every time: it reports when somebody else has had its job for long.

use super::{book::Book, checker::has_ended, named};
use crate::serve::wait_for;
use serde_json::{Value, json};

/// So often; each takes a lease's length at least.
const TIMES: usize = 6;

pub(crate) fn oversleep(book: &Book) {
    for number in 0..TIMES {
        let ask = book.claim_ask(book.any_door(), "sleeper", &named("nap", 0, number), 1, 1);
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
    let ask = book.any_door().get(&format!("{path}?wait=1"));
    wait_for("somebody takes it", || is_taken(&book.ask(&ask).ok(200), job).then_some(()));
    let told = book.settle(job, &json!({"outcome": "completed"}));
    let told = told.expect_err("somebody else has it");
    // The second is told where it was cancelled, or had no attempt left, and nobody else got it.
    assert!(["LEASE_LOST", "ALREADY_ENDED"].contains(&told.as_str()), "{told}");
    book.pages().counts.overslept += 1;
}

/// Whether somebody has begun it after this worker, or it has ended without it.
fn is_taken(status: &Value, job: &Value) -> bool {
    status["attempt"].as_u64() > job["attempt"].as_u64() || has_ended(status)
}
