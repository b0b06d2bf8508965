//! The binary from outside: what an operator types, and what the binary prints.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test may")]

mod audit;
mod bench;
mod client;
mod config;
mod damaged;
mod demo;
mod documents;
mod examples;
mod ops;
mod postgres;
mod references;
mod serve;
mod start;
mod walkthrough;

use engine::{JobDraft, JobId, Scope, SubmitContext, Tenant};
use platform::{SystemClock, SystemRandom};
use pollster::block_on;
use std::{
    path::Path,
    process::{Command, Output},
    sync::Arc,
};
use store::{Clock, Execute, Notification, Options, RandomSource, Request, Sqlite, Store};
use tempfile::TempDir;

/// The result of a run of `consign`.
struct RunResult {
    out: String,
    err: String,
    success: bool,
}

fn consign(folder: &Path, words: &[&str]) -> RunResult {
    consign_with(folder, words, &[])
}

/// With these variables and no others of Consign: the developer's environment may have some.
fn consign_with(folder: &Path, words: &[&str], variables: &[(&str, &str)]) -> RunResult {
    RunResult::of(command(folder, words).envs(variables.iter().copied()).output().unwrap())
}

impl RunResult {
    fn of(run: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        RunResult { out: text(run.stdout), err: text(run.stderr), success: run.status.success() }
    }
}

fn command(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_consign"));
    command.args(words).current_dir(folder);
    remove_consign_variables(&mut command);
    command
}

/// The developer's environment may have variables of Consign.
fn remove_consign_variables(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("CONSIGN_") {
            command.env_remove(name);
        }
    }
}

fn open(path: &Path) -> Sqlite {
    let (clock, random) = (Arc::new(SystemClock::new()), Arc::new(SystemRandom));
    Sqlite::open(path, clock, random, Options::default()).unwrap()
}

fn submit(store: &Sqlite) -> JobId {
    let context = SubmitContext {
        id: JobId::new(SystemClock::new().read().wall, SystemRandom.entropy()),
        tenant: Tenant::default_tenant(),
        entropy: SystemRandom.entropy(),
        payload_bytes_max: 1_000,
    };
    let draft = JobDraft { job_type: "email".into(), ..JobDraft::default() };
    let new_job = draft.check(context).unwrap();
    let id = new_job.id;
    let submit = vec![Request::Submit(vec![new_job])];
    store.execute(submit, Notification::default()).unwrap()[0].as_ref().unwrap();
    id
}

#[test]
fn a_store_is_backed_up_at_work_and_restored() {
    let folder = TempDir::new().unwrap();
    let store = open(&folder.path().join("consign.db"));
    let id = submit(&store);
    let backup = consign(folder.path(), &["backup", "copy.db", "--store", "sqlite:consign.db"]);
    assert!(backup.success, "{}", backup.err);
    let again = consign(folder.path(), &["backup", "copy.db", "--store", "sqlite:consign.db"]);
    assert!(!again.success && again.err.contains("copy.db exists already"), "{}", again.err);
    let restore = consign(folder.path(), &["restore", "copy.db", "--store", "sqlite:new/other.db"]);
    assert!(restore.success, "{}", restore.err);
    let other = open(&folder.path().join("new/other.db"));
    assert!(block_on(other.job(&Scope::All, id)).unwrap().is_some());
    let audit = block_on(other.audit(&Scope::All, None, 10)).unwrap();
    let [entry] = &audit[..] else { panic!("one entry, not {audit:?}") };
    assert_eq!((&*entry.who, &*entry.action), ("consign restore", "store.restored"));
    assert_eq!(entry.detail.as_deref(), Some("from copy.db"));
}

#[test]
fn a_store_in_use_is_not_written_over_and_its_holder_is_named() {
    let folder = TempDir::new().unwrap();
    let store = open(&folder.path().join("consign.db"));
    submit(&store);
    consign(folder.path(), &["backup", "copy.db", "--store", "sqlite:consign.db"]);
    let refused = consign(folder.path(), &["restore", "copy.db", "--store", "sqlite:consign.db"]);
    let holder = format!("is in use by process {}", std::process::id());
    assert!(!refused.success && refused.err.contains(&holder), "{}", refused.err);
}

#[test]
fn the_doctor_finds_a_damaged_store() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("consign.db");
    let store = open(&path);
    for _ in 0..200 {
        submit(&store);
    }
    let healthy = consign(folder.path(), &["doctor", "--store", "sqlite:consign.db"]);
    assert!(healthy.success, "{}{}", healthy.out, healthy.err);
    assert!(healthy.out.contains("live jobs 200") && healthy.out.contains("nothing is wrong"));
    let quick = consign(folder.path(), &["doctor", "--quick", "--store", "sqlite:consign.db"]);
    assert!(quick.success && !quick.out.contains("live jobs"), "{}", quick.out);
    drop(store);
    let mut bytes = std::fs::read(&path).unwrap();
    for page in bytes.chunks_mut(4096).skip(1) {
        page[4000..4064].fill(0x5a);
    }
    std::fs::write(&path, bytes).unwrap();
    let damaged = consign(folder.path(), &["doctor", "--store", "sqlite:consign.db"]);
    assert!(!damaged.success, "{}", damaged.out);
    assert!(
        format!("{}{}", damaged.out, damaged.err).contains("restore the last backup"),
        "{}",
        damaged.out
    );
}

#[test]
fn commands_report_a_missing_store_and_create_none() {
    let folder = TempDir::new().unwrap();
    for words in [&["backup", "copy.db"][..], &["restore", "copy.db"], &["audit", "verify"]] {
        let result = consign(folder.path(), words);
        assert!(!result.success && result.err.contains("there is no"), "{words:?}: {}", result.err);
    }
    let result = consign(folder.path(), &["doctor", "--store", "sqlite:x.db"]);
    assert!(!result.success && result.out.contains("✗ store: there is no store"), "{}", result.out);
    let result = consign(folder.path(), &["doctor", "--store", "mysql:x"]);
    assert!(!result.success && result.out.contains("must begin with sqlite:"), "{}", result.out);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "and nothing is made");
}
