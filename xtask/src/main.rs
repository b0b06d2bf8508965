//! The project's own commands: `cargo xtask test`, `lint`, `ci`.
#![forbid(unsafe_code)]

#[cfg(test)]
mod walls;

use std::{
    env,
    path::Path,
    process::{Command, ExitCode},
};

const HELP: &str = "\
cargo xtask <command>

  test   every test, from a bare checkout
  lint   cargo fmt --check and clippy, warnings are errors
  ci     lint, then test: what CI runs
";

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["test"] => test(),
        ["lint"] => lint(),
        ["ci"] => lint() && test(),
        ["help" | "--help" | "-h"] => say(HELP),
        _ => return complain(&words),
    };
    if done { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// All tests, also after a failure: the one that says it best may be the last.
///
/// Everything that can be tested today needs no more than the toolchain: no database is started, no
/// package is installed.
fn test() -> bool {
    let plain = cargo(&["test", "--workspace", "--locked", "--no-fail-fast"]);
    let shuttle = cargo(&[&["test", "--locked", "--no-fail-fast"], SHUTTLE].concat());
    plain && shuttle
}

fn lint() -> bool {
    const STRICT: &[&str] = &["--", "-D", "warnings"];
    cargo(&["fmt", "--all", "--check"])
        && cargo(&[&["clippy", "--workspace", "--all-targets", "--locked"], STRICT].concat())
        && cargo(&[&["clippy", "--locked"], SHUTTLE, STRICT].concat())
}

/// The tests in which shuttle chooses which thread moves next. They need locks and threads of their own,
/// with which no other test runs.
const SHUTTLE: &[&str] = &[
    "--package=consign-store",
    "--package=consign-platform",
    "--features=consign-store/shuttle,consign-platform/shuttle",
    "--test=shuttle",
];

fn cargo(args: &[&str]) -> bool {
    say(&format!("cargo {}\n", args.join(" ")));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace");
    let status = Command::new(env!("CARGO")).args(args).current_dir(root).status();
    status.is_ok_and(|status| status.success())
}

#[expect(clippy::print_stdout, reason = "a command for people")]
fn say(text: &str) -> bool {
    print!("{text}");
    true
}

#[expect(clippy::print_stderr, reason = "a command for people")]
fn complain(words: &[&str]) -> ExitCode {
    eprint!("xtask does not know {:?}\n\n{HELP}", words.join(" "));
    ExitCode::FAILURE
}
