//! `--watch`: a live line on a terminal, a line per change elsewhere.

use super::{Prompt, claim, send_heartbeat, settle};
use crate::{
    demo::terminal,
    serve::{TestServer, wait_until},
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::{
    fs::File,
    io::{BufRead, BufReader, Read},
    process::{Child, Stdio},
    sync::{Arc, Mutex},
    thread::{self, JoinHandle},
};

/// A command in a terminal, and everything that it drew.
struct TerminalCommand {
    child: Child,
    screen: Arc<Mutex<String>>,
    reader: JoinHandle<()>,
}

impl TerminalCommand {
    fn start(prompt: &Prompt, words: &[&str]) -> Self {
        let (outside, inside) = terminal();
        let child = prompt.command(words).stdout(inside).stderr(Stdio::null()).spawn().unwrap();
        let screen = Arc::new(Mutex::new(String::new()));
        let buffer = screen.clone();
        let reader = thread::spawn(move || read(outside, &buffer));
        TerminalCommand { child, screen, reader }
    }

    #[track_caller]
    fn wait_for_text(&self, what: &str) {
        wait_until(what, || self.screen.lock().unwrap().contains(what));
    }

    /// Waits for the end: exit code, and everything that was drawn.
    fn wait(mut self) -> (Option<i32>, String) {
        let code = self.child.wait().unwrap().code();
        self.reader.join().unwrap();
        (code, self.screen.lock().unwrap().clone())
    }
}

/// When the last process closes a terminal, reading from it fails: that is the end.
fn read(mut terminal: File, buffer: &Mutex<String>) {
    let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
    while let Ok(length @ 1..) = terminal.read(&mut piece) {
        bytes.extend_from_slice(&piece[..length]);
        *buffer.lock().unwrap() = String::from_utf8_lossy(&bytes).into_owned();
    }
}

fn at_a_terminal(test_server: &TestServer) -> Prompt {
    Prompt::of(test_server).set("TERM", "xterm")
}

#[test]
fn a_terminal_has_a_live_line_and_gets_its_cursor_back() {
    let test_server = TestServer::start();
    let prompt = at_a_terminal(&test_server);
    let id = prompt.enqueues(&["report"]);
    let command = TerminalCommand::start(&prompt, &["status", &id, "--watch"]);
    command.wait_for_text("\x1b[34mQueued");
    let job = claim(&test_server, "report");
    command.wait_for_text("\x1b[36mRunning");
    send_heartbeat(&test_server, &job, 33, "month 4 of 12\x1b[2J");
    command.wait_for_text("███\x1b[0m\x1b[2m░░░░░░░░░\x1b[0m   33 %  month 4 of 12");
    settle(&test_server, &job, json!({"outcome": "completed", "message": "twelve months"}));
    let (code, screen) = command.wait();
    assert_eq!(code, Some(0), "{screen:?}");
    assert!(screen.contains("\x1b[32mCompleted") && screen.contains("twelve months"), "{screen:?}");
    assert!(!screen.contains("\x1b[2J"), "no other command clears the screen: {screen:?}");
    assert!(screen.rfind("\x1b[?25l") < screen.rfind("\x1b[?25h"), "{screen:?}");
}

#[test]
fn ctrl_c_leaves_the_terminal_as_it_was() {
    let test_server = TestServer::start();
    let prompt = at_a_terminal(&test_server);
    prompt.enqueues(&["report"]);
    for words in [&["queues", "--watch"][..], &["list", "--watch"]] {
        let command = TerminalCommand::start(&prompt, words);
        command.wait_for_text("report");
        kill_process(Pid::from_child(&command.child), Signal::INT).unwrap();
        let (code, screen) = command.wait();
        assert_eq!(code, Some(130), "{screen:?}");
        assert!(screen.ends_with("\x1b[?25h"), "{screen:?}");
    }
}

#[test]
fn a_table_is_drawn_again_in_place() {
    let test_server = TestServer::start();
    let prompt = at_a_terminal(&test_server);
    prompt.enqueues(&["report"]);
    let command = TerminalCommand::start(&prompt, &["queues", "--watch"]);
    command.wait_for_text("report");
    prompt.enqueues(&["email"]);
    command.wait_for_text("email");
    kill_process(Pid::from_child(&command.child), Signal::INT).unwrap();
    let (_, screen) = command.wait();
    assert!(screen.contains("\x1b[2A\r"), "over the last table: {screen:?}");
}

#[test]
fn colours_can_be_declined() {
    let test_server = TestServer::start();
    let id = at_a_terminal(&test_server).enqueues(&["report"]);
    for (name, value) in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let prompt = at_a_terminal(&test_server).set(name, value);
        for words in [&["status", &id][..], &["list"], &["queues"]] {
            let (code, screen) = TerminalCommand::start(&prompt, words).wait();
            assert!(code == Some(0) && !screen.contains('\x1b'), "{words:?} {screen:?}");
        }
    }
    let (_, screen) = TerminalCommand::start(&at_a_terminal(&test_server), &["list"]).wait();
    assert!(screen.contains("\x1b[34mQueued"), "{screen:?}");
    let widest = screen.lines().map(|line| line.split("\x1b[").count()).max();
    assert!(widest > Some(1), "{screen:?}");
}

/// A command whose output is read line by line.
fn lines(prompt: &Prompt, words: &[&str]) -> (Child, impl Iterator<Item = String> + use<>) {
    let mut command = prompt.command(words);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    (child, out.lines().map(Result::unwrap))
}

#[test]
fn without_a_terminal_there_is_a_line_per_change_also_over_a_restart() {
    let test_server = TestServer::start();
    let prompt = Prompt::of(&test_server);
    let id = prompt.enqueues(&["report"]);
    let (mut child, mut output_lines) = lines(&prompt, &["status", &id, "--watch"]);
    assert!(output_lines.next().unwrap().contains("Queued"));
    test_server.kill();
    test_server.restart_in_place();
    let job = claim(&test_server, "report");
    let next = output_lines.next().unwrap();
    assert!(next.contains("Running") && next.contains("1/10"), "{next}");
    let failed = json!({"outcome": "failed", "retryable": false, "errorCode": "NO_PAPER"});
    settle(&test_server, &job, failed);
    let last = output_lines.next().unwrap();
    assert!(last.contains("Failed") && last.contains("NO_PAPER"), "{last}");
    assert_eq!(output_lines.next(), None);
    assert_eq!(child.wait().unwrap().code(), Some(3), "it ended otherwise");
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert!(err.contains("trying again"), "{err}");
    assert!(!err.contains('\x1b'), "{err}");
}

#[test]
fn the_lines_of_a_watch_never_go_back_in_time() {
    let test_server = TestServer::start();
    let prompt = Prompt::of(&test_server);
    let id = prompt.enqueues(&["report"]);
    let (_child, mut output_lines) = lines(&prompt, &["status", &id, "--watch"]);
    let mut seen = vec![output_lines.next().unwrap()];
    let busy = json!({"outcome": "failed", "errorCode": "BUSY", "retryAfterSeconds": 0});
    for ending in [busy, json!({"outcome": "completed"})] {
        let job = claim(&test_server, "report");
        seen.push(output_lines.next().unwrap());
        settle(&test_server, &job, ending);
        seen.push(output_lines.next().unwrap());
    }
    let times: Vec<&str> = seen.iter().filter_map(|line| line.split("  ").next()).collect();
    assert!(times.is_sorted(), "{seen:#?}");
    assert!(seen[3].contains("Running    2/10") && seen[4].contains("Completed"), "{seen:#?}");
}

#[test]
fn watching_an_ended_job_returns_at_once() {
    let test_server = TestServer::start();
    let prompt = Prompt::of(&test_server);
    let id = prompt.enqueues(&["report"]);
    settle(&test_server, &claim(&test_server, "report"), json!({"outcome": "completed"}));
    let output = prompt.types(&["status", &id, "--watch", "--json"]);
    let last: Value = serde_json::from_str(output.well().lines().last().unwrap()).unwrap();
    assert_eq!(last["status"], "Completed");
    let output = prompt.types(&["events", &id]);
    assert!(output.well().lines().last().unwrap().contains("Completed"), "{}", output.out);
    let output = prompt.types(&["events", &id, "--json"]);
    let last: Value = serde_json::from_str(output.well().lines().last().unwrap()).unwrap();
    assert_eq!((&last["event"], &last["data"]["status"]), (&json!("status"), &json!("Completed")));
}

#[test]
fn enqueue_can_wait_for_the_end_of_its_job() {
    let test_server = TestServer::start();
    let prompt = Prompt::of(&test_server);
    for (word, ending, code) in [
        ("--wait", json!({"outcome": "completed", "result": {"pages": 3}}), 0),
        ("--wait", json!({"outcome": "poisoned", "errorCode": "BAD"}), 3),
        ("--watch", json!({"outcome": "completed"}), 0),
    ] {
        let mut command = prompt.command(&["enqueue", "report", word]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        settle(&test_server, &claim(&test_server, "report"), ending);
        let run = child.wait_with_output().unwrap();
        let out = String::from_utf8(run.stdout).unwrap();
        assert_eq!(run.status.code(), Some(code), "{word}: {out}");
        assert!(out.contains(if code == 0 { "Completed" } else { "Poisoned" }), "{out}");
    }
}
