//! Policies that change while the server runs.

use super::{Place, WAITS};
use serde_json::json;

#[test]
fn another_program_is_run_and_what_the_first_had_begun_ends_in_peace() {
    let place = Place::new("");
    place.declare_sh("report", WAITS);
    let old = place.customer.queued("report");
    place.wait_for_progress(&old);
    place.declare_sh("report", "echo by another");
    place.wait_for_log("no more jobs are taken");
    let new = place.customer.queued("report");
    assert_eq!(place.wait(&new, "Completed")["message"], "by another");
    assert_eq!(place.customer.status(&old)["status"], "Running");
    place.touch("go");
    let status = place.wait(&old, "Completed");
    assert_eq!((&status["message"], &status["attempt"]), (&json!("went"), &json!(1)));
    place.wait_for_log("a ready-made handler stopped");
}

#[test]
fn a_type_without_a_handler_any_more_waits_for_a_worker() {
    let place = Place::new("");
    place.declare_sh("report", "echo done");
    place.wait(&place.customer.queued("report"), "Completed");
    place.declare("report", json!({"maxAttempts": 5}));
    place.wait_for_log("a ready-made handler stopped");
    let id = place.customer.queued("report");
    // Now anybody may do it.
    assert_eq!(place.customer.claim("report")["jobId"], id.as_str());
}
