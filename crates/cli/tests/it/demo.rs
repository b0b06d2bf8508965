//! The demo from outside and without a terminal: what it prints, and what it leaves behind.

use super::consign;
use rustix::{
    fs::{Mode, OFlags},
    process::{Pid, Signal, kill_process},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
};
use std::{
    fs::File,
    io::{BufRead, BufReader, Read},
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// Viewers would not watch for longer.
const DURATION_MAX: Duration = Duration::from_secs(20);

/// Starts the demo with its folder in `folder`.
fn start(folder: &Path, words: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_consign"))
        .arg("demo")
        .args(words)
        .env("TMPDIR", folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[track_caller]
fn check_line(output: &str, job: &str, what: &str) {
    let is_printed = output.lines().any(|line| line.contains(job) && line.contains(what));
    assert!(is_printed, "there is no line with {job} and {what:?} in:\n{output}");
}

fn files_in(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

#[test]
#[expect(clippy::disallowed_methods, reason = "it must not take long by the wall clock")]
fn the_demo_shows_every_outcome_and_leaves_no_files() {
    let folder = TempDir::new().unwrap();
    let started = Instant::now();
    let run = start(folder.path(), &[]).wait_with_output().unwrap();
    let took = started.elapsed();
    let output = String::from_utf8(run.stdout).unwrap();
    let errors = String::from_utf8(run.stderr).unwrap();
    assert!(run.status.success(), "{output}{errors}");
    assert!(took < DURATION_MAX, "it took {took:?}");
    assert_eq!(errors, "", "no panic of a handler is printed");
    assert!(!output.contains('\x1b'), "{output}");
    assert_eq!(files_in(folder.path()), [] as [PathBuf; 0]);

    check_line(&output, "payment    order/7", "duplicate: true");
    check_line(&output, "email      order/13", "Running → Failed    attempt 1/3  NO_ADDRESS");
    check_line(&output, "document   invoice/7", "attempt 1/3  TAX_OFFICE_DOWN");
    check_line(&output, "document   invoice/7", "(retry in 1.");
    check_line(&output, "document   invoice/7", "attempt 2/3  TAX_OFFICE_DOWN");
    check_line(&output, "document   invoice/7", "Running → Completed attempt 3/3");
    check_line(&output, "document   report/2026", "Running → Completed attempt 1/3");
    check_line(
        &output,
        "image      teapot.png",
        "HANDLER_PANICKED: the handler panicked: the teapot",
    );
    check_line(&output, "image      teapot.png", "Running → Completed attempt 2/3");
    check_line(
        &output,
        "import     prices/spring",
        "Running → Poisoned  attempt 1/3  PRICE_UNREADABLE",
    );
    check_line(&output, "import     prices/spring", "Poisoned → Queued                redriven");
    check_line(&output, "import     prices/spring", "Running → Completed attempt 1/3");
    check_line(&output, "import     prices/spring", "PRICE_UNREADABLE, life 2");
    check_line(&output, "newsletter winter-sale", "cancel requested");
    check_line(&output, "newsletter winter-sale", "Running → Cancelled");
    check_line(&output, "explain", "NO_LIVE_WORKER");
    check_line(&output, "label      order/7", "Running → Completed");
    check_line(&output, "email      all of them", "Completed");
    check_line(&output, "demo --keep", "the store stays");
}

#[test]
fn a_store_that_is_kept_is_well() {
    let folder = TempDir::new().unwrap();
    let run = start(folder.path(), &["--keep"]).wait_with_output().unwrap();
    let output = String::from_utf8(run.stdout).unwrap();
    let files = files_in(folder.path());
    assert_eq!(files.len(), 1, "{output}");
    let path = files[0].join("shop.db");
    check_line(&output, "The store is kept in", path.to_str().unwrap());
    let store = format!("sqlite:{}", path.display());
    let health = consign(folder.path(), &["doctor", "--store", &store]);
    assert!(health.success, "{}{}", health.out, health.err);
    assert!(health.out.contains("live jobs 0") && health.out.contains("nothing is wrong"));
}

#[test]
fn a_demo_that_is_interrupted_cleans_up() {
    let folder = TempDir::new().unwrap();
    let mut child = start(folder.path(), &[]);
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut first = String::new();
    out.read_line(&mut first).unwrap();
    assert_eq!(files_in(folder.path()).len(), 1, "it is at work: {first}");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{rest}");
    assert!(rest.contains("Stopped before the end."), "{rest}");
    assert_eq!(files_in(folder.path()), [] as [PathBuf; 0]);
}

#[test]
fn a_reader_who_goes_away_is_no_failure() {
    let folder = TempDir::new().unwrap();
    let mut child = start(folder.path(), &[]);
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap(); // and closed here
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success() && ended.stderr.is_empty(), "{:?}", ended.stderr);
    assert_eq!(files_in(folder.path()), [] as [PathBuf; 0]);
}

#[test]
fn on_a_terminal_it_draws_over_itself_and_gives_the_cursor_back() {
    let drawn = drawn(&[("TERM", "xterm")]);
    let (hidden, shown) = (drawn.rfind("\x1b[?25l").unwrap(), drawn.rfind("\x1b[?25h").unwrap());
    assert!(hidden < shown, "{drawn:?}");
    assert!(drawn.contains("\x1b[32mCompleted"), "in colours: {drawn:?}");
    assert!(drawn.contains("A\r\x1b[1m consign demo"), "over the last picture: {drawn:?}");
    assert!(drawn.ends_with("and is gone.\r\n"), "{drawn:?}");
}

#[test]
fn colours_and_drawing_can_be_declined() {
    let grey = drawn(&[("TERM", "xterm"), ("NO_COLOR", "1")]);
    assert!(grey.contains("\x1b[?25l") && !grey.contains("\x1b[3"), "{grey:?}");
    let lines = drawn(&[("TERM", "dumb")]);
    assert!(!lines.contains('\x1b'), "{lines:?}");
}

/// The demo's output to a terminal until the first shown job has completed; then Ctrl-C.
fn drawn(environment: &[(&str, &str)]) -> String {
    let folder = TempDir::new().unwrap();
    let (mut terminal, child_end) = terminal();
    let mut child = Command::new(env!("CARGO_BIN_EXE_consign"))
        .arg("demo")
        .env_remove("NO_COLOR")
        .envs(environment.iter().copied())
        .env("TMPDIR", folder.path())
        .stdout(child_end)
        .spawn()
        .unwrap();
    let mut drawn = Vec::new();
    let mut interrupted = false;
    let mut chunk = [0; 4096];
    // When the last process closes a terminal, reading from it fails: that is the end.
    while let Ok(length @ 1..) = terminal.read(&mut chunk) {
        drawn.extend_from_slice(&chunk[..length]);
        if !interrupted && String::from_utf8_lossy(&drawn).contains("charged 1×") {
            interrupted = true;
            kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        }
    }
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(files_in(folder.path()), [] as [PathBuf; 0]);
    String::from_utf8(drawn).unwrap()
}

/// Both ends of a pseudoterminal.
pub(super) fn terminal() -> (File, OwnedFd) {
    let test_end = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&test_end).unwrap();
    unlockpt(&test_end).unwrap();
    let name = ptsname(&test_end, Vec::new()).unwrap();
    let child_end = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
    (File::from(test_end), child_end)
}
