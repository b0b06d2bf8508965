//! The project's own commands: `cargo xtask test`, `prepare`, `lint`, `deny`, `release`, `ci`,
//! `bench`, `soak`.
#![forbid(unsafe_code)]

mod bench;
mod deny;
#[cfg(test)]
mod names;
mod prepare;
mod release;
mod soak;
mod suites;
#[cfg(test)]
mod walls;

use std::{
    env,
    path::Path,
    process::{Command, ExitCode, Stdio},
};
use suites::Suite;

const HELP: &str = "\
cargo xtask <command>

  test         every test, from a bare checkout; installs first what prepare does. Builds once, then
               runs suites that wait beside suites that compute; each suite's output is printed
               when the suite ends, and is kept in target/suites. Seeds come from the commit's hash,
               or from CONSIGN_SEED=<number>
  prepare      installs what the tests need where it is missing: strace, curl, postgresql, pgbouncer,
               python3 and nodejs by apt-get, and tools of their own under target/tools; tests start
               their own PostgreSQL on private ports, and leave alone the one that Debian starts
  lint         cargo fmt --check and clippy, warnings are errors
  deny         licences, sources and known vulnerabilities of all dependencies, as deny.toml wants
               them; part of lint. Advisories are those of xtask/advisories.toml, and of the copy of
               the RustSec database that CONSIGN_ADVISORY_DB=<folder> names, where it is set
  deny renew   writes xtask/advisories.toml anew, from CONSIGN_ADVISORY_DB=<folder>
  release      the binary for users, its SBOM (CycloneDX) and SHA-256 sums, in target/dist
  ci           lint and test side by side: what CI runs
  bench open   opens a store with a million jobs: seconds and memory, in a release build
  soak         claims of 200 jobs/s on PostgreSQL, before and while a transaction is held open for ten
               minutes (--minutes N), in a release build
  soak --proof  the simulation, the model, the crash points and the storms at their full sizes, with the
               seeds of this commit, in a release build: a long night
  soak --attack  honest clients beside hostile ones for an hour (--minutes N): fails where the honest
               p99 grows over 3 times its baseline, memory grows, or an acknowledged job is lost
";

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let succeeded = match words[..] {
        ["test"] => test(),
        ["prepare"] => prepare::prepare(),
        ["lint"] => lint(),
        ["deny"] => deny::deny(),
        ["deny", "renew"] => deny::renew(),
        ["release"] => release::release(),
        ["ci"] => ci(),
        ["bench", "open"] => bench::open(),
        ["soak", ref rest @ ..] => soak::soak(rest),
        ["help" | "--help" | "-h"] => print_text(HELP),
        _ => print_error(&format!("xtask does not know {:?}\n\n{HELP}", words.join(" "))),
    };
    if succeeded { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs all tests, after installing what they need beside the toolchain.
fn test() -> bool {
    prepare::prepare() && suites::run(other_tests())
}

/// Runs what every commit must pass: quick checks first; clippy runs beside the tests that wait.
fn ci() -> bool {
    let lints = CLIPPY.map(|(name, build)| Suite::cargo(name, &clippy(build)));
    let others = lints.into_iter().chain(other_tests()).collect();
    style() && prepare::prepare() && suites::run(others)
}

fn lint() -> bool {
    style() && CLIPPY.iter().all(|(_, build)| cargo(&clippy(build)))
}

fn style() -> bool {
    cargo(&["fmt", "--all", "--check"]) && deny::deny()
}

fn clippy(build: &[&'static str]) -> Vec<&'static str> {
    [&["clippy", "--locked"], build, &["--", "-D", "warnings"]].concat()
}

/// Tests that only cargo can run: doc-tests, and those of another build.
fn other_tests() -> Vec<Suite> {
    let shuttle = [&["test", "--locked", "--no-fail-fast"], SHUTTLE].concat();
    let documentation = ["test", "--workspace", "--locked", "--no-fail-fast", "--doc"];
    vec![Suite::cargo("shuttle", &shuttle), Suite::cargo("documentation", &documentation)]
}

/// The builds that clippy checks. The narrow ones have fewer features than the workspace: a worker
/// and a library that only ask a server, and each store alone.
const CLIPPY: [(&str, &[&str]); 6] = [
    ("clippy", &["--workspace", "--all-targets"]),
    ("clippy shuttle", SHUTTLE),
    ("clippy narrow", &["-p", "consign", "-p", "consign-worker", "--no-default-features"]),
    ("clippy narrow", &["-p", "consign-store", "--no-default-features"]),
    ("clippy narrow", &["-p", "consign-store", "--no-default-features", "--features=sqlite"]),
    ("clippy narrow", &["-p", "consign-store", "--no-default-features", "--features=postgres"]),
];

/// The tests in which shuttle schedules the threads. They need locks and threads of shuttle's, with
/// which no other test runs. Only two crates have such tests, but the whole workspace is named: so
/// their dependencies are built as for all other tests, and not a second time.
const SHUTTLE: &[&str] =
    &["--workspace", "--features=consign-store/shuttle,consign-platform/shuttle", "--test=shuttle"];

fn cargo(args: &[&str]) -> bool {
    cargo_with(&[], args)
}

/// The same with these environment variables.
fn cargo_with(variables: &[(&str, &str)], args: &[&str]) -> bool {
    let shown: String = variables.iter().map(|(name, value)| format!("{name}={value} ")).collect();
    print_text(&format!("{shown}cargo {}\n", args.join(" ")));
    let mut command = Command::new(env!("CARGO"));
    command.args(args).envs(variables.iter().copied()).current_dir(root());
    command.status().is_ok_and(|status| status.success())
}

/// Runs another program without output, and returns whether it succeeded.
fn run(program: &str, args: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace")
}

#[expect(clippy::print_stdout, reason = "a command for people")]
fn print_text(text: &str) -> bool {
    print!("{text}");
    true
}

#[expect(clippy::print_stderr, reason = "a command for people")]
fn print_error(text: &str) -> bool {
    eprintln!("{text}");
    false
}
