//! `consign bench` measures and leaves nothing behind. How fast it is is not tested.

use crate::consign;
use serde_json::Value;
use std::{fs, path::Path, process::Command};
use tempfile::TempDir;

/// Small enough for a test.
const SMALL: [&str; 3] = ["bench", "--jobs=2000", "--deep=5000"];

#[test]
fn a_run_gives_every_number_and_removes_its_files() {
    let folder = TempDir::new().unwrap();
    let run = Command::new(env!("CARGO_BIN_EXE_consign"))
        .args(SMALL)
        .arg("--json")
        .env("TMPDIR", folder.path())
        // `bench` must not measure with a store in use.
        .env("CONSIGN_STORE", "sqlite:/nowhere/consign.db")
        .output()
        .unwrap();
    let err = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{err}");
    assert!(err.contains("measuring whole lives …"), "{err}");
    assert!(err.contains(&*folder.path().to_string_lossy()), "it says where: {err}");
    check(&serde_json::from_slice(&run.stdout).unwrap());
    assert_empty(folder.path());
}

#[track_caller]
fn check(json: &Value) {
    for ratio in ["whole_lives", "submit_one_by_one", "drain", "idle_start_p50", "drain_deep"] {
        assert_positive(&json["ratios"][ratio], ratio);
        assert!(json["targets"][ratio]["pass"].is_boolean(), "{ratio}: {json}");
    }
    assert_positive(&json["ratios"]["submit_batches"], "submit_batches");
    for number in [
        "idle_start_p99",
        "submit_p99_half_load",
        "submit_p99_saturated",
        "drain_shallow",
        "bytes_queued",
        "bytes_ended",
        "peak_memory",
    ] {
        assert_positive(&json["numbers"][number]["ours"], number);
    }
    let rounds = json["numbers"]["whole_lives"]["rawRounds"].as_array().unwrap();
    assert_eq!(Some(rounds.len() as u64), json["rounds"].as_u64());
}

#[track_caller]
fn assert_positive(value: &Value, name: &str) {
    assert!(value.as_f64().is_some_and(|number| number > 0.0), "{name}: {value}");
}

#[test]
fn the_http_bench_compares_with_an_echo_and_cleans_up() {
    let folder = TempDir::new().unwrap();
    let result =
        consign(folder.path(), &["bench", "--http", "--json", "--jobs=200", "--store=sqlite:a.db"]);
    assert!(result.success, "{}", result.err);
    let json: Value = serde_json::from_str(&result.out).unwrap();
    assert_eq!(json["beside"], "echo");
    for ratio in ["http_enqueue", "http_status"] {
        assert_positive(&json["ratios"][ratio], ratio);
        assert!(json["targets"][ratio]["pass"].is_boolean(), "{ratio}: {json}");
    }
    for number in ["http_lives", "http_stream_end_p99", "http_streams_memory"] {
        assert_positive(&json["numbers"][number]["ours"], number);
        assert!(json["targets"][number]["pass"].is_boolean(), "{number}: {json}");
    }
    assert_empty(folder.path());
}

#[test]
fn a_run_beside_other_files_shows_a_table_and_leaves_only_them() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("a.db.old"), "precious").unwrap();
    let result = consign(folder.path(), &[&SMALL[..], &["--store=sqlite:a.db"]].concat());
    assert!(result.success, "{}", result.err);
    for line in ["Throughput", "whole lives", "idle, submit to start, p50", "drain, 5,000 queued"] {
        assert!(result.out.lines().any(|shown| shown.starts_with(line)), "{line}: {}", result.out);
    }
    fs::remove_file(folder.path().join("a.db.old")).unwrap();
    assert_empty(folder.path());
}

#[test]
fn the_bench_refuses_an_existing_store_and_keeps_it() {
    let folder = TempDir::new().unwrap();
    for existing in ["a.db", "a.db-raw", "a.db-wal"] {
        let existing = folder.path().join(existing);
        fs::write(&existing, "precious").unwrap();
        let result = consign(folder.path(), &[&SMALL[..], &["--store=sqlite:a.db"]].concat());
        assert!(!result.success && result.err.contains("is there already"), "{}", result.err);
        assert_eq!(fs::read(&existing).unwrap(), b"precious");
        fs::remove_file(&existing).unwrap();
    }
    assert_empty(folder.path());
}

#[test]
fn a_bench_that_cannot_start_reports_why() {
    let folder = TempDir::new().unwrap();
    let result = consign(folder.path(), &[&SMALL[..], &["--store=sqlite:missing/a.db"]].concat());
    assert!(!result.success && result.err.contains("missing/a.db"), "{}", result.err);
    let result = consign(folder.path(), &["bench", "--jobs", "1"]);
    assert!(!result.success && result.err.contains("100.."), "{}", result.err);
    assert_empty(folder.path());
}

#[track_caller]
fn assert_empty(folder: &Path) {
    let left: Vec<_> = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}

#[test]
fn an_interrupted_bench_leaves_no_files() {
    let folder = TempDir::new().unwrap();
    let program = env!("CARGO_BIN_EXE_consign");
    let mut run = std::process::Command::new(program)
        .args(["bench", "--store=sqlite:a.db"])
        .current_dir(folder.path())
        .stderr(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    while !folder.path().join("a.db").exists() {
        assert!(run.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let process = rustix::process::Pid::from_child(&run);
    rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
    assert_eq!(run.wait().unwrap().code(), Some(130));
    assert_empty(folder.path());
}
