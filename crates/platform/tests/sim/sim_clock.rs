//! Time in the simulation.

use engine::Timestamp;
use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};
use store::{Clock, ManualClock, Reading};

/// The machine's clocks, moved by the test, and the error of the current caller's clock. Only a
/// store that takes the time from its callers would notice the error.
pub(crate) struct SimClock {
    hand: ManualClock,
    skew_ms: AtomicI64,
    at_most_ms: AtomicI64,
}

impl SimClock {
    pub(crate) fn new() -> Self {
        let beginning = Timestamp::from_unix_ms(1_800_000_000_000);
        let at_most_ms = AtomicI64::new(beginning.unix_ms());
        SimClock { hand: ManualClock::at(beginning), skew_ms: AtomicI64::new(0), at_most_ms }
    }

    /// The underlying clock, for another clock that follows it.
    pub(crate) fn hand(&self) -> &ManualClock {
        &self.hand
    }

    /// Lets time pass.
    pub(crate) fn advance(&self, ms: i64) {
        self.hand.pass(Duration::from_millis(ms.unsigned_abs()));
        self.at_most_ms.fetch_add(ms, Ordering::Relaxed);
        self.at_most_ms.fetch_max(self.wall_ms(), Ordering::Relaxed);
    }

    /// Sets the wall clock.
    pub(crate) fn set_off(&self, ms: i64) {
        self.hand.set_off(ms);
        self.at_most_ms.fetch_max(self.wall_ms(), Ordering::Relaxed);
    }

    pub(crate) fn called_with_skew(&self, ms: i64) {
        self.skew_ms.store(ms, Ordering::Relaxed);
    }

    /// What the current caller's clock shows.
    pub(crate) fn callers_wall(&self) -> Timestamp {
        Timestamp::from_unix_ms(self.wall_ms() + self.skew_ms.load(Ordering::Relaxed))
    }

    /// A time that a clock cannot have passed which follows the wall clock and never runs faster
    /// than time.
    pub(crate) fn at_most(&self) -> Timestamp {
        Timestamp::from_unix_ms(self.at_most_ms.load(Ordering::Relaxed))
    }

    /// How long this simulation has run.
    pub(crate) fn elapsed_ms(&self) -> u128 {
        self.hand.read().monotonic.as_millis()
    }

    pub(crate) fn wall_ms(&self) -> i64 {
        self.hand.read().wall.unix_ms()
    }
}

impl Clock for SimClock {
    fn read(&self) -> Reading {
        self.hand.read()
    }
}
