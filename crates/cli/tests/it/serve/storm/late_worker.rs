//! A worker that is always too slow: it reports long after another worker got its job.

use super::{checker::has_ended, client_log::ClientLog, named};
use crate::serve::wait_for;
use serde_json::{Value, json};

/// How often; each takes at least the length of a lease.
const TIMES: usize = 6;

pub(crate) fn report_late(client_log: &ClientLog) {
    for number in 0..TIMES {
        let ask = client_log.claim_ask(
            client_log.any_client(),
            "sleeper",
            &named("nap", 0, number),
            1,
            1,
        );
        let jobs = client_log.note_claim(&client_log.ask(&ask));
        if client_log.is_over() {
            return;
        }
        if let [job] = &jobs[..] {
            report_too_late(client_log, job);
        }
    }
}

fn report_too_late(client_log: &ClientLog, job: &Value) {
    let path = format!("/api/jobs/{}/status", job["jobId"].as_str().unwrap());
    let ask = client_log.any_client().get(&format!("{path}?wait=1"));
    wait_for("a worker takes it", || is_taken(&client_log.ask(&ask).ok(200), job).then_some(()));
    let code = client_log.settle(job, &json!({"outcome": "completed"}));
    let code = code.expect_err("another worker has it");
    // The second code comes where the job was cancelled, or had no attempt left, so that no other
    // worker got it.
    assert!(["LEASE_LOST", "ALREADY_ENDED"].contains(&code.as_str()), "{code}");
    client_log.records().counts.late_reports += 1;
}

/// Whether another worker has started it after this one, or it has ended without it.
fn is_taken(status: &Value, job: &Value) -> bool {
    status["attempt"].as_u64() > job["attempt"].as_u64() || has_ended(status)
}
