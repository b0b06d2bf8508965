//! Who may name programs.

use super::Place;
use serde_json::json;

const NOT_RUN: &str = "the ready-made handler is not run";

#[test]
fn where_the_file_alone_may_an_admin_may_not() {
    let place = Place::new(
        "[handlers]\nexec = \"file\"\n[types.report]\nhandler.exec = [\"echo\", \"from the file\"]",
    );
    let status = place.wait(&place.customer.queued("report"), "Completed");
    assert_eq!(status["message"], "from the file");
    place.declare_sh("report", "touch evil");
    place.wait_for_log(NOT_RUN);
    place.declare_sh("other", "touch evil");
    let [report, other] = ["report", "other"].map(|job_type| place.customer.queued(job_type));
    place.wait_for_log("\"job_type\":\"other\"");
    assert_eq!(place.customer.reasons(&other), ["NO_LIVE_WORKER"]);
    assert_eq!(place.customer.status(&report)["status"], "Queued");
    // What the file says is the truth again, and the job has waited for it.
    place.declare("report", json!({"handler": {"exec": ["echo", "from the file"]}}));
    assert_eq!(place.wait(&report, "Completed")["message"], "from the file");
    assert!(!place.file("evil").exists());
}

#[test]
fn where_nobody_may_no_program_is_run() {
    let place = Place::new(
        "[handlers]\nexec = \"off\"\n[types.report]\nhandler.exec = [\"touch\", \"evil\"]",
    );
    place.wait_for_log(NOT_RUN);
    let id = place.customer.queued("report");
    assert_eq!(place.customer.reasons(&id), ["NO_LIVE_WORKER"]);
    assert!(!place.file("evil").exists());
}
