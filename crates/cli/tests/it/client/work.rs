//! `consign work`: a program for each job, and what is left after a crash.

use super::{Prompt, url};
use crate::serve::{TestServer, wait_for, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::{
    fs,
    process::{Child, Stdio},
};

/// A running `consign work`, killed on drop.
struct Worker(Child);

impl Worker {
    fn start(prompt: &Prompt, words: &[&str]) -> Self {
        let mut command = prompt.command(&[&["work"], words].concat());
        let err = fs::File::create(prompt.home().join("work.err")).unwrap();
        Worker(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(err).spawn().unwrap())
    }

    fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    fn ended(&mut self) -> Option<i32> {
        wait_for("the worker ends", || self.0.try_wait().unwrap()).code()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn submit(test_server: &TestServer, job_type: &str, payload: Value) -> String {
    let job = json!({"jobType": job_type, "payload": payload});
    let taken = test_server.admin().post("/api/jobs").json(&job).send().ok(202);
    taken["jobId"].as_str().unwrap().into()
}

fn status(test_server: &TestServer, id: &str) -> Value {
    test_server.admin().get(&format!("/api/jobs/{id}/status")).send().ok(200)
}

fn wait_until_it_is(test_server: &TestServer, id: &str, wanted: &str) {
    wait_until(&format!("the job is {wanted}"), || status(test_server, id)["status"] == wanted);
}

#[test]
fn exec_exit_codes_map_to_documented_outcomes() {
    let test_server = TestServer::start();
    let prompt = Prompt::of(&test_server);
    let [fine, bad, later] =
        ["fine", "bad", "later"].map(|how| submit(&test_server, "a", json!(how)));
    let script = r#"in=$(cat); case "$in" in *'"bad"'*) echo no >&2; exit 65;; *'"later"'*) exit 1;; esac; echo "done by $CONSIGN_JOB_ID""#;
    let output =
        prompt.types(&["work", "--type", "a", "--until-empty", "--exec", "sh", "-c", script]);
    assert_eq!(output.code, Some(0), "{}", output.err);
    let workers = test_server.admin().get("/api/workers").send().ok(200);
    assert_eq!(workers["items"], json!([]), "it signed off");
    let status = |id: &str| status(&test_server, id);
    let done = status(&fine);
    assert_eq!((&done["status"], &done["attempt"]), (&json!("Completed"), &json!(1)));
    assert_eq!(done["message"], format!("done by {fine}"));
    let failed = status(&bad);
    assert_eq!(
        (&failed["status"], &failed["errorCode"]),
        (&json!("Failed"), &json!("EXEC_EXIT_65"))
    );
    assert_eq!(status(&later)["errorCode"], "EXEC_EXIT_1");
    for (id, outcome) in [(fine, "completed"), (bad, "failed for good"), (later, "failed")] {
        let line = |line: &&str| line.contains(&id) && line.contains(outcome);
        assert!(output.err.lines().any(|said| line(&said)), "{id} {outcome}: {}", output.err);
    }
}

#[test]
fn a_stopped_worker_releases_jobs_that_outlast_the_grace() {
    let test_server = TestServer::start();
    let prompt = Prompt::of(&test_server);
    let id = submit(&test_server, "a", json!(1));
    let words = ["--type", "a", "--grace", "1s", "--exec", "sh", "-c", "echo $$ > pid; sleep 60"];
    let mut worker = Worker::start(&prompt, &words);
    wait_until("the program runs", || prompt.home().join("pid").exists());
    worker.send(Signal::TERM);
    assert_eq!(worker.ended(), Some(0));
    let status = status(&test_server, &id);
    assert_eq!((&status["status"], &status["attempt"]), (&json!("Queued"), &json!(0)));
    let pid = fs::read_to_string(prompt.home().join("pid")).unwrap();
    wait_until("the program is gone", || !alive(&pid));
}

/// Whether a program still runs; a zombie does not.
fn alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.trim().is_empty() && !rest.starts_with(" Z"))
}

#[test]
fn a_worker_that_is_killed_is_replaced_by_another() {
    let test_server = TestServer::start();
    test_server.admin().put("/api/types/a").json(&json!({"lease": "1s"})).send().ok(200);
    let id = submit(&test_server, "a", json!(1));
    let prompt = Prompt::of(&test_server);
    let words = ["--type", "a", "--exec", "sh", "-c", "echo $$ > pid; exec sleep 60"];
    let mut worker = Worker::start(&prompt, &words);
    wait_until("the program runs", || prompt.home().join("pid").exists());
    worker.send(Signal::KILL);
    assert_eq!(worker.ended(), None);
    let other = Prompt::of(&test_server);
    let _other = Worker::start(&other, &["--type", "a", "--exec", "true"]);
    wait_until_it_is(&test_server, &id, "Completed");
    assert_eq!(status(&test_server, &id)["attempt"], 2);
    // No worker is left to end the program of the first one.
    let pid = fs::read_to_string(prompt.home().join("pid")).unwrap().trim().parse().unwrap();
    let _gone = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
}

#[test]
fn a_program_whose_lease_is_lost_is_killed_at_once() {
    let test_server = TestServer::start();
    let policy = json!({"lease": "1s", "maxAttempts": 1});
    test_server.admin().put("/api/types/a").json(&policy).send().ok(200);
    let id = submit(&test_server, "a", json!(1));
    let prompt = Prompt::of(&test_server);
    let script = "trap 'echo bye > bye; exit 0' TERM; echo $$ > pid; sleep 60 & wait";
    let worker = Worker::start(&prompt, &["--type", "a", "--exec", "sh", "-c", script]);
    wait_until("the program runs", || prompt.home().join("pid").exists());
    worker.send(Signal::STOP);
    wait_until_it_is(&test_server, &id, "Poisoned");
    worker.send(Signal::CONT);
    let pid = fs::read_to_string(prompt.home().join("pid")).unwrap();
    wait_until("the program is gone", || !alive(&pid));
    assert!(!prompt.home().join("bye").exists(), "the next attempt may have begun");
}

#[test]
fn a_server_that_is_killed_costs_no_job_and_no_second_run() {
    let test_server = TestServer::start();
    let prompt = Prompt::of(&test_server);
    let jobs: Vec<String> =
        (0..24).map(|number| submit(&test_server, "a", json!(number))).collect();
    let script = "echo $CONSIGN_JOB_ID >> ran; sleep 0.4";
    let words = ["--type", "a", "--slots", "4", "--exec", "sh", "-c", script];
    let mut worker = Worker::start(&prompt, &words);
    let ran = || fs::read_to_string(prompt.home().join("ran")).unwrap_or_default();
    for killed_after in [4, 12] {
        wait_until("some ran", || ran().lines().count() >= killed_after);
        test_server.kill();
        test_server.restart_in_place();
    }
    for id in &jobs {
        wait_until_it_is(&test_server, id, "Completed");
        assert_eq!(status(&test_server, id)["attempt"], 1);
        assert_eq!(ran().lines().filter(|line| line == id).count(), 1, "{id} ran twice");
    }
    worker.send(Signal::TERM);
    assert_eq!(worker.ended(), Some(0));
}

#[test]
fn work_with_an_invalid_key_fails_at_once() {
    let test_server = TestServer::start();
    let prompt = Prompt::unconfigured()
        .set("CONSIGN_URL", &url(&test_server))
        .set("CONSIGN_KEY", "csk_wrong");
    let output = prompt.types(&["work", "--type", "a", "--exec", "true"]);
    assert_ne!(output.code, Some(0));
    assert!(output.err.contains("UNAUTHENTICATED"), "{}", output.err);
}
