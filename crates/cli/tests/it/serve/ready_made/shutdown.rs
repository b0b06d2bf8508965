//! A server that ends while programs run.

use super::{Place, WAITS};
use crate::serve::{wait_for, wait_until};
use rustix::process::Signal;
use serde_json::json;
use std::{fs, path::Path};

#[test]
fn what_is_under_way_is_finished_first() {
    let place = Place::new("");
    place.declare_sh("report", WAITS);
    let id = place.customer.queued("report");
    place.wait_for_progress(&id);
    place.house().send(Signal::TERM);
    place.wait_for_log("no more jobs are taken");
    place.touch("go");
    wait_for("the server ends", || place.house().has_ended().then_some(()));
    assert_eq!(place.house().stopped().code(), Some(0), "{}", place.house().log());
    place.house().restart();
    let status = place.wait(&id, "Completed");
    assert_eq!((&status["message"], &status["attempt"]), (&json!("went"), &json!(1)));
}

#[test]
fn whoever_asks_twice_has_programs_killed_and_jobs_given_back() {
    let place = Place::new("");
    let stubborn = "trap '' TERM; echo $$ > number; echo 'consign:progress 1 x'; \
                    while [ ! -e over ]; do sleep 1; done";
    place.declare_sh("report", stubborn);
    let id = place.customer.queued("report");
    place.wait_for_progress(&id);
    let number = fs::read_to_string(place.file("number")).unwrap();
    place.house().send(Signal::TERM);
    place.wait_for_log("no more jobs are taken");
    place.house().send(Signal::TERM);
    wait_for("the server ends", || place.house().has_ended().then_some(()));
    assert_eq!(place.house().stopped().code(), Some(0), "{}", place.house().log());
    wait_until("the program is dead", || !lives(number.trim()));
    place.house().restart();
    wait_until("the job runs again", || place.customer.status(&id)["status"] == "Running");
    assert_eq!(place.customer.status(&id)["attempt"], 1, "the first try was given back");
    // It would outlive the server, which is about to be killed.
    place.touch("over");
    let again = || fs::read_to_string(place.file("number")).unwrap();
    wait_until("the program ends", || again() != number && !lives(again().trim()));
}

/// Whoever has ended and was not reaped does not.
fn lives(number: &str) -> bool {
    let stat = fs::read_to_string(Path::new("/proc").join(number).join("stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}
