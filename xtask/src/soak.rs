//! Long looks at a load beside something that hurts: an open transaction, or hostile clients.

use crate::{cargo, complain_about};

/// Minutes with a transaction held open, where none are given.
const OPEN_TRANSACTION_MINUTES: &str = "10";
/// Minutes under attack, where none are given.
const ATTACK_MINUTES: &str = "60";

/// The words behind `soak`: `--attack`, `--minutes N`, both or nothing.
pub(crate) fn soak(words: &[&str]) -> bool {
    match words {
        [] => open_transaction(OPEN_TRANSACTION_MINUTES),
        ["--minutes", minutes] if is_count(minutes) => open_transaction(minutes),
        ["--attack"] => attack(ATTACK_MINUTES),
        ["--attack", "--minutes", minutes] if is_count(minutes) => attack(minutes),
        _ => complain_about("soak takes nothing, --attack, and --minutes with how many"),
    }
}

fn is_count(minutes: &str) -> bool {
    minutes.parse::<u64>().is_ok_and(|minutes| minutes > 0)
}

/// What it shows is not asserted: it is about PostgreSQL and the machine as much as about us.
fn open_transaction(minutes: &str) -> bool {
    example("soak", &["--minutes", minutes])
}

/// Fails where honest clients noticed the hostile ones, memory grew, or a job was lost.
fn attack(minutes: &str) -> bool {
    const BINARY: [&str; 5] = ["build", "--release", "--locked", "-p", "consign-cli"];
    cargo(&BINARY) && example("attack", &["target/release/consign", minutes])
}

fn example(name: &str, words: &[&str]) -> bool {
    let run = ["run", "--release", "--locked", "-p", "consign-bench", "--example", name, "--"];
    cargo(&[&run[..], words].concat())
}
