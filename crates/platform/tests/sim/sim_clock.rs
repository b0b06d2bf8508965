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
    clock: ManualClock,
    skew_ms: AtomicI64,
    latest_possible_ms: AtomicI64,
}

impl SimClock {
    pub(crate) fn new() -> Self {
        let beginning = Timestamp::from_unix_ms(1_800_000_000_000);
        let latest_possible_ms = AtomicI64::new(beginning.unix_ms());
        SimClock {
            clock: ManualClock::at(beginning),
            skew_ms: AtomicI64::new(0),
            latest_possible_ms,
        }
    }

    /// The underlying clock, for another clock that follows it.
    pub(crate) fn manual_clock(&self) -> &ManualClock {
        &self.clock
    }

    /// Lets time pass.
    pub(crate) fn advance(&self, ms: i64) {
        self.clock.pass(Duration::from_millis(ms.unsigned_abs()));
        self.latest_possible_ms.fetch_add(ms, Ordering::Relaxed);
        self.latest_possible_ms.fetch_max(self.wall_ms(), Ordering::Relaxed);
    }

    /// Sets the wall clock.
    pub(crate) fn set_off(&self, ms: i64) {
        self.clock.set_off(ms);
        self.latest_possible_ms.fetch_max(self.wall_ms(), Ordering::Relaxed);
    }

    pub(crate) fn set_caller_skew(&self, ms: i64) {
        self.skew_ms.store(ms, Ordering::Relaxed);
    }

    /// What the current caller's clock shows.
    pub(crate) fn callers_wall(&self) -> Timestamp {
        Timestamp::from_unix_ms(self.wall_ms() + self.skew_ms.load(Ordering::Relaxed))
    }

    /// A time that no clock can have passed that follows the wall clock and never runs faster than
    /// time.
    pub(crate) fn latest_possible(&self) -> Timestamp {
        Timestamp::from_unix_ms(self.latest_possible_ms.load(Ordering::Relaxed))
    }

    /// How long this simulation has run.
    pub(crate) fn elapsed_ms(&self) -> u128 {
        self.clock.read().monotonic.as_millis()
    }

    pub(crate) fn wall_ms(&self) -> i64 {
        self.clock.read().wall.unix_ms()
    }
}

impl Clock for SimClock {
    fn read(&self) -> Reading {
        self.clock.read()
    }
}
