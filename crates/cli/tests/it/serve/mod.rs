//! `consign serve` from outside: HTTP in, HTTP out, on the real binary.
//!
//! Tests here know only the server's contract, its table of routes and its catalogue of codes.
//! Every wait has a limit: sockets have timeouts, and so does [`wait_until`].

mod attacks;
mod browsers;
mod client;
mod codes;
mod contract;
mod customer;
mod drain;
mod forgery;
mod hostile;
mod job_log;
mod matrix;
mod openapi;
mod protocol;
mod ready_made;
mod secrets;
pub(crate) mod storm;
mod test_server;

pub(crate) use client::{Answer, Ask, Client, Connection, Event, Events};
pub(crate) use customer::Customer;
pub(crate) use test_server::{TestServer, free_port};

use platform::SystemClock;
use std::{thread, time::Duration};
use store::Clock;

/// Longer than any normal operation takes on a machine that does other work as well.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(30);

/// Waits until `it` has a value.
#[track_caller]
pub(crate) fn wait_for<T>(what: &str, condition: impl FnMut() -> Option<T>) -> T {
    wait_for_within(WAIT_MAX, what, condition)
}

/// The same with another limit, where something takes long on purpose.
#[track_caller]
pub(crate) fn wait_for_within<T>(
    timeout: Duration,
    what: &str,
    mut condition: impl FnMut() -> Option<T>,
) -> T {
    let clock = SystemClock::new();
    let until = clock.read().monotonic + timeout;
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(clock.read().monotonic < until, "waited in vain: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until `it` happened.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    wait_for(what, || condition().then_some(()));
}
