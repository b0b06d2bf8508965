//! Policies that change while the server runs.

use super::{TestFolder, WAITS};
use serde_json::json;

#[test]
fn another_program_is_run_and_what_the_first_had_begun_ends_in_peace() {
    let test_folder = TestFolder::new("");
    test_folder.declare_sh("report", WAITS);
    let old = test_folder.customer.queued("report");
    test_folder.wait_for_progress(&old);
    test_folder.declare_sh("report", "echo by another");
    test_folder.wait_for_log("no more jobs are taken");
    let new = test_folder.customer.queued("report");
    assert_eq!(test_folder.wait(&new, "Completed")["message"], "by another");
    assert_eq!(test_folder.customer.status(&old)["status"], "Running");
    test_folder.touch("go");
    let status = test_folder.wait(&old, "Completed");
    assert_eq!((&status["message"], &status["attempt"]), (&json!("went"), &json!(1)));
    test_folder.wait_for_log("a ready-made handler stopped");
}

#[test]
fn a_type_without_a_handler_any_more_waits_for_a_worker() {
    let test_folder = TestFolder::new("");
    test_folder.declare_sh("report", "echo done");
    test_folder.wait(&test_folder.customer.queued("report"), "Completed");
    test_folder.declare("report", json!({"maxAttempts": 5}));
    test_folder.wait_for_log("a ready-made handler stopped");
    let id = test_folder.customer.queued("report");
    // Now any worker may do it.
    assert_eq!(test_folder.customer.claim("report")["jobId"], id.as_str());
}
