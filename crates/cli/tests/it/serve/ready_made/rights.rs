//! Who may name programs.

use super::TestFolder;
use serde_json::json;
use std::fs;

const NOT_RUN: &str = "the ready-made handler cannot run";

#[test]
fn an_admin_cannot_declare_programs_when_exec_is_file() {
    let test_folder = TestFolder::new(
        "[handlers]\nexec = \"file\"\n[types.report]\nhandler.exec = [\"echo\", \"from the file\"]",
    );
    let status = test_folder.wait(&test_folder.customer.queued("report"), "Completed");
    assert_eq!(status["message"], "from the file");
    let put = |job_type: &str, words: &[&str]| {
        let policy = json!({"handler": {"exec": words}});
        let path = format!("/api/types/{job_type}");
        test_folder.test_server().admin().put(&path).json(&policy).send()
    };
    for job_type in ["report", "other"] {
        put(job_type, &["touch", "evil"]).problem(400, "INVALID_FIELD");
    }
    put("report", &["echo", "from the file"]).ok(200);
    let status = test_folder.wait(&test_folder.customer.queued("report"), "Completed");
    assert_eq!(status["message"], "from the file");
    assert!(!test_folder.file("evil").exists());
}

/// A program that the API named while it was allowed does not run after the setting changed: the
/// store still has it.
#[test]
fn a_program_that_the_api_named_before_is_not_run_where_the_file_alone_may() {
    let test_folder =
        TestFolder::new("[types.report]\nhandler.exec = [\"echo\", \"from the file\"]");
    test_folder.declare_sh("report", "echo by the api");
    test_folder.declare_sh("other", "echo by the api");
    let status = test_folder.wait(&test_folder.customer.queued("other"), "Completed");
    assert_eq!(status["message"], "by the api");
    assert!(test_folder.test_server().stop().success(), "{}", test_folder.test_server().log());
    let settings =
        "[handlers]\nexec = \"file\"\n[types.report]\nhandler.exec = [\"echo\", \"from the file\"]";
    fs::write(test_folder.file("consign.toml"), settings).unwrap();
    test_folder.test_server().restart();
    test_folder.wait_for_log(NOT_RUN);
    test_folder.wait_for_log("\"job_type\":\"other\"");
    let other = test_folder.customer.queued("other");
    let status = test_folder.wait(&test_folder.customer.queued("report"), "Completed");
    assert_eq!(status["message"], "from the file", "a start applies the file");
    assert_eq!(test_folder.customer.status(&other)["status"], "Queued");
}

#[test]
fn no_program_runs_when_exec_is_off() {
    let test_folder = TestFolder::new(
        "[handlers]\nexec = \"off\"\n[types.report]\nhandler.exec = [\"touch\", \"evil\"]",
    );
    test_folder.wait_for_log(NOT_RUN);
    let id = test_folder.customer.queued("report");
    assert_eq!(test_folder.customer.reasons(&id), ["NO_LIVE_WORKER"]);
    assert!(!test_folder.file("evil").exists());
}
