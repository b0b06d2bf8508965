//! The API document against the server: the examples, a generated client, and schemathesis.

mod document;
mod examples;
mod fuzzed;
mod generated;
mod page;

use document::{Document, Operation};
use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// Files of these tests that are not Rust.
fn beside(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/serve/openapi").join(name)
}

/// A program of the tests' own Python environment.
fn tool(name: &str) -> Command {
    let bin = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/venv/bin");
    assert!(bin.join(name).exists(), "{name} is missing: run `cargo xtask prepare`");
    let mut command = Command::new(bin.join(name));
    // The program finds its helpers there, and uses no proxy.
    command.env_clear().env("PATH", bin).env("no_proxy", "127.0.0.1").env("PYTHONUTF8", "1");
    command.env("PYTHONDONTWRITEBYTECODE", "1"); // the hooks are in the checkout
    command
}

#[track_caller]
fn succeed(command: &mut Command) -> Output {
    let run = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(run.status.success(), "{command:?}:\n{}{}", text(&run.stdout), text(&run.stderr));
    run
}
