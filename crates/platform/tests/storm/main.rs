//! A real process on a real file: killed, stopped, and with a disk that runs full or fails. The
//! audit judges it from outside by the answers that its callers got.
//!
//! The process is this very binary, started again with one test, [`child::serve`], that does not
//! end. Everything here is for Linux: signals, `strace`, and a file system that can be filled.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test may")]

mod audit;
mod child;
mod client_log;
mod disk_full;
mod faults;
mod million;
mod process;
mod producer;
mod second;
mod socket;
mod storm;
mod strace;
mod worker;

use platform::SystemClock;
use std::{
    io::{self, Write},
    thread,
    time::Duration,
};
use store::Clock;

/// Prints a summary of a run that went well.
fn print_line(line: &str) {
    writeln!(io::stderr(), "{line}").expect("it prints");
}

/// Waits until `condition` holds. Each wait takes seconds when all is well.
#[track_caller]
fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let clock = SystemClock::new();
    while !condition() {
        assert!(clock.read().monotonic < WAIT_MAX, "waited in vain: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Longer than anything correct takes on a busy machine.
const WAIT_MAX: Duration = Duration::from_secs(120);

/// The random seed. `cargo xtask test` sets it from the commit's hash; without it, it is always the
/// same. The seed decides what happens; when it happens depends on the machine.
fn seed_base() -> u64 {
    setting("CONSIGN_SEED").unwrap_or(0)
}

fn setting(name: &str) -> Option<u64> {
    text(name).map(|text| text.parse().expect("a whole number"))
}

#[expect(clippy::disallowed_methods, reason = "settings for the child, and for who runs the test")]
fn text(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
