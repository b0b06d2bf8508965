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
    cargo(&["test", "--workspace", "--locked", "--no-fail-fast"])
}

fn lint() -> bool {
    cargo(&["fmt", "--all", "--check"])
        && cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"])
}

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
