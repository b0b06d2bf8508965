//! Long runs: a load beside an open transaction, one beside hostile clients, and tests by seed.

use crate::{
    cargo, cargo_with, print_error,
    suites::{SEED, seed},
};

const OPEN_TRANSACTION_MINUTES: &str = "10";
const ATTACK_MINUTES: &str = "60";

/// Takes the arguments of `soak`: none or `--attack`, each with `--minutes N`; or `--proof`.
pub(crate) fn soak(words: &[&str]) -> bool {
    match words {
        [] => open_transaction(OPEN_TRANSACTION_MINUTES),
        ["--minutes", minutes] if is_count(minutes) => open_transaction(minutes),
        ["--proof"] => proof(),
        ["--attack"] => attack(ATTACK_MINUTES),
        ["--attack", "--minutes", minutes] if is_count(minutes) => attack(minutes),
        _ => print_error("soak takes nothing, --proof, --attack, and --minutes with how many"),
    }
}

fn is_count(minutes: &str) -> bool {
    minutes.parse::<u64>().is_ok_and(|minutes| minutes > 0)
}

/// Shows its result and asserts nothing: it depends on PostgreSQL and the machine as much as on our
/// code.
fn open_transaction(minutes: &str) -> bool {
    example("soak", &["--minutes", minutes])
}

/// Fails if honest clients became too slow, memory grew, or a job was lost.
fn attack(minutes: &str) -> bool {
    const BINARY: [&str; 5] = ["build", "--release", "--locked", "-p", "consign-cli"];
    cargo(&BINARY) && example("attack", &["target/release/consign", minutes])
}

/// Runs the seeded tests of CI at full size. All are tried, also after a failure.
fn proof() -> bool {
    const FULL: &[(&str, &str, &[&str])] = &[
        ("CONSIGN_SIM_SEEDS", "60000", &["-p", "consign-platform", "--test", "sim"]),
        ("CONSIGN_CRASH_POINTS", "200000", &["-p", "consign-store", "--lib", "crash"]),
        ("CONSIGN_MODEL_STORIES", "40000", &["-p", "consign-store", "--lib", "model"]),
        ("CONSIGN_STORM_KILLS", "300", &["-p", "consign-platform", "--test", "storm"]),
        ("CONSIGN_STORM_ROUNDS", "40", &["-p", "consign-cli", "--test", "it", "postgres::storm"]),
    ];
    let seed = seed();
    let passes = |(name, size, tests): &(&str, &str, &[&str])| {
        let args = [&["test", "--release", "--locked"], *tests].concat();
        cargo_with(&[(*name, *size), (SEED, &seed)], &args)
    };
    let failed: Vec<_> = FULL.iter().filter(|test| !passes(test)).map(|(name, ..)| *name).collect();
    failed.is_empty() || print_error(&format!("failed with {SEED}={seed}: {failed:?}"))
}

fn example(name: &str, words: &[&str]) -> bool {
    let run = ["run", "--release", "--locked", "-p", "consign-bench", "--example", name, "--"];
    cargo(&[&run[..], words].concat())
}
