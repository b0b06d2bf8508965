//! A server that ends while programs run.

use super::{TestFolder, WAITS};
use crate::serve::{wait_for, wait_until};
use rustix::process::Signal;
use serde_json::json;
use std::{fs, path::Path};

#[test]
fn a_running_program_finishes_before_shutdown() {
    let test_folder = TestFolder::new("");
    test_folder.declare_sh("report", WAITS);
    let id = test_folder.customer.queued("report");
    test_folder.wait_for_progress(&id);
    test_folder.test_server().send(Signal::TERM);
    test_folder.wait_for_log("no more jobs are taken");
    test_folder.touch("go");
    wait_for("the server ends", || test_folder.test_server().has_ended().then_some(()));
    assert_eq!(
        test_folder.test_server().stopped().code(),
        Some(0),
        "{}",
        test_folder.test_server().log()
    );
    test_folder.test_server().restart();
    let status = test_folder.wait(&id, "Completed");
    assert_eq!((&status["message"], &status["attempt"]), (&json!("went"), &json!(1)));
}

#[test]
fn a_second_stop_signal_kills_programs_and_releases_jobs() {
    let test_folder = TestFolder::new("");
    let stubborn = "trap '' TERM; echo $$ > number; echo 'consign:progress 1 x'; \
                    while [ ! -e over ]; do sleep 1; done";
    test_folder.declare_sh("report", stubborn);
    let id = test_folder.customer.queued("report");
    test_folder.wait_for_progress(&id);
    let number = fs::read_to_string(test_folder.file("number")).unwrap();
    test_folder.test_server().send(Signal::TERM);
    test_folder.wait_for_log("no more jobs are taken");
    test_folder.test_server().send(Signal::TERM);
    wait_for("the server ends", || test_folder.test_server().has_ended().then_some(()));
    assert_eq!(
        test_folder.test_server().stopped().code(),
        Some(0),
        "{}",
        test_folder.test_server().log()
    );
    wait_until("the program is dead", || !lives(number.trim()));
    test_folder.test_server().restart();
    wait_until("the job runs again", || test_folder.customer.status(&id)["status"] == "Running");
    assert_eq!(test_folder.customer.status(&id)["attempt"], 1, "the first try was given back");
    // It would outlive the server, which the test kills soon.
    test_folder.touch("over");
    let again = || fs::read_to_string(test_folder.file("number")).unwrap();
    wait_until("the program ends", || again() != number && !lives(again().trim()));
}

/// Whether the process runs; a zombie does not.
fn lives(number: &str) -> bool {
    let stat = fs::read_to_string(Path::new("/proc").join(number).join("stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}
