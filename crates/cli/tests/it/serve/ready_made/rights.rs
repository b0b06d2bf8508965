//! Who may name programs.

use super::Place;
use serde_json::json;
use std::fs;

const NOT_RUN: &str = "the ready-made handler is not run";

#[test]
fn where_the_file_alone_may_an_admin_may_not() {
    let place = Place::new(
        "[handlers]\nexec = \"file\"\n[types.report]\nhandler.exec = [\"echo\", \"from the file\"]",
    );
    let status = place.wait(&place.customer.queued("report"), "Completed");
    assert_eq!(status["message"], "from the file");
    let put = |job_type: &str, words: &[&str]| {
        let policy = json!({"handler": {"exec": words}});
        let path = format!("/api/types/{job_type}");
        place.house().admin().put(&path).json(&policy).send()
    };
    for job_type in ["report", "other"] {
        put(job_type, &["touch", "evil"]).problem(400, "INVALID_FIELD");
    }
    put("report", &["echo", "from the file"]).ok(200);
    let status = place.wait(&place.customer.queued("report"), "Completed");
    assert_eq!(status["message"], "from the file");
    assert!(!place.file("evil").exists());
}

/// What the API named while it could is not run after the switch was turned: the store still has
/// it.
#[test]
fn a_program_that_the_api_named_before_is_not_run_where_the_file_alone_may() {
    let place = Place::new("[types.report]\nhandler.exec = [\"echo\", \"from the file\"]");
    place.declare_sh("report", "echo by the api");
    place.declare_sh("other", "echo by the api");
    let status = place.wait(&place.customer.queued("other"), "Completed");
    assert_eq!(status["message"], "by the api");
    assert!(place.house().stop().success(), "{}", place.house().log());
    let settings =
        "[handlers]\nexec = \"file\"\n[types.report]\nhandler.exec = [\"echo\", \"from the file\"]";
    fs::write(place.file("consign.toml"), settings).unwrap();
    place.house().restart();
    place.wait_for_log(NOT_RUN);
    place.wait_for_log("\"job_type\":\"other\"");
    let other = place.customer.queued("other");
    let status = place.wait(&place.customer.queued("report"), "Completed");
    assert_eq!(status["message"], "from the file", "a start applies the file");
    assert_eq!(place.customer.status(&other)["status"], "Queued");
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
