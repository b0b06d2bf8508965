//! Time of the simulated world.

use engine::{SeededBug, Timestamp, planted};
use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};
use store::{Clock, HandClock, Reading};

/// The machine's clocks, moved by hand, and how wrong the clock of whoever calls now is. Only a store
/// that asks its callers for the time would notice.
pub(crate) struct SimClock {
    hand: HandClock,
    skew_ms: AtomicI64,
}

impl SimClock {
    pub(crate) fn new() -> Self {
        let beginning = Timestamp::from_unix_ms(1_800_000_000_000);
        SimClock { hand: HandClock::at(beginning), skew_ms: AtomicI64::new(0) }
    }

    /// Time goes by.
    pub(crate) fn advance(&self, ms: i64) {
        self.hand.pass(Duration::from_millis(ms.unsigned_abs()));
    }

    /// Somebody sets the wall clock.
    pub(crate) fn set_off(&self, ms: i64) {
        self.hand.set_off(ms);
    }

    pub(crate) fn called_with_skew(&self, ms: i64) {
        self.skew_ms.store(ms, Ordering::Relaxed);
    }

    pub(crate) fn wall_ms(&self) -> i64 {
        self.hand.read().wall.unix_ms()
    }
}

impl Clock for SimClock {
    fn read(&self) -> Reading {
        let mut reading = self.hand.read();
        if planted(SeededBug::WorkersClock) {
            let skewed = reading.wall.unix_ms() + self.skew_ms.load(Ordering::Relaxed);
            reading.wall = Timestamp::from_unix_ms(skewed);
        }
        reading
    }
}
