//! A long look at a load beside a transaction that somebody holds open: shown, not asserted.

use crate::{cargo, complain_about};

/// Minutes, if nobody says how many.
const MINUTES: &str = "10";

/// The words behind `soak`: nothing, or `--minutes N`.
pub(crate) fn soak(words: &[&str]) -> bool {
    let minutes = match words {
        [] => MINUTES,
        ["--minutes", minutes] if minutes.parse::<u64>().is_ok_and(|n| n > 0) => minutes,
        _ => return complain_about("soak takes nothing, or --minutes and how many"),
    };
    let run = ["run", "--release", "--locked", "-p", "consign-bench", "--example", "soak"];
    cargo(&[&run[..], &["--", "--minutes", minutes]].concat())
}
