//! A long queue costs no memory and no time to open. `cargo xtask bench open` shows it for a
//! million jobs; filling that many takes too long for every run.

#[path = "../../examples/million.rs"]
#[allow(dead_code, reason = "its way in is for people")]
mod example;

use crate::{print_line, text};
use std::{
    path::{Path, PathBuf},
    process::Command,
};

const JOBS: usize = 200_000;
/// A fifth of what a million may take.
const PEAK_MIB_MAX: u64 = 150 / 5;

/// The file to open; without it, the test does nothing.
const STORE: &str = "CONSIGN_STORM_OPEN";

#[test]
fn a_long_queue_is_opened_in_little_memory() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let filled = example::fill(&store, JOBS).unwrap().as_secs();
    let line = open_in_a_fresh_process(&store);
    print_line(&format!("{JOBS} queued jobs (submitted in {filled} s): {line}"));
    let peak = line.strip_suffix(" MiB").and_then(|rest| rest.rsplit(' ').next()).unwrap();
    assert!(peak.parse::<u64>().unwrap() < PEAK_MIB_MAX, "{line}");
}

/// The child process. In the parent's own run it does nothing.
#[test]
fn open() {
    let Some(path) = text(STORE).map(PathBuf::from) else { return };
    println!("\n{}", example::open(&path).unwrap());
}

fn open_in_a_fresh_process(store: &Path) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "million::open", "--nocapture"]).env(STORE, store);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let output = String::from_utf8(output.stdout).unwrap();
    output.lines().find(|line| line.starts_with("opened in")).unwrap().to_owned()
}
