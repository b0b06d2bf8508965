//! Time and chance of the simulated world.

use crate::rng::Rng;
use engine::{Chance, SeededBug, Timestamp, planted};
use std::{sync::Mutex, time::Duration};
use store::{Clock, Dice, Reading};

/// The world begins here.
pub(crate) const BEGINNING_MS: i64 = 1_800_000_000_000;

/// The machine's clocks, moved by hand.
pub(crate) struct SimClock(Mutex<Hands>);

struct Hands {
    wall_ms: i64,
    monotonic_ms: u64,
    /// How wrong the clock of whoever calls now is. Only a store that asks its callers for the time
    /// would notice.
    skew_ms: i64,
}

impl SimClock {
    pub(crate) fn new() -> Self {
        SimClock(Mutex::new(Hands { wall_ms: BEGINNING_MS, monotonic_ms: 0, skew_ms: 0 }))
    }

    /// Time goes by.
    pub(crate) fn advance(&self, ms: i64) {
        let mut hands = self.0.lock().unwrap();
        hands.wall_ms += ms;
        hands.monotonic_ms += ms.unsigned_abs();
    }

    /// Somebody sets the wall clock.
    pub(crate) fn set_off(&self, ms: i64) {
        self.0.lock().unwrap().wall_ms += ms;
    }

    pub(crate) fn called_with_skew(&self, ms: i64) {
        self.0.lock().unwrap().skew_ms = ms;
    }

    pub(crate) fn wall_ms(&self) -> i64 {
        self.0.lock().unwrap().wall_ms
    }
}

impl Clock for SimClock {
    fn read(&self) -> Reading {
        let hands = self.0.lock().unwrap();
        let skew = if planted(SeededBug::WorkersClock) { hands.skew_ms } else { 0 };
        Reading {
            wall: Timestamp::from_unix_ms(hands.wall_ms + skew),
            monotonic: Duration::from_millis(hands.monotonic_ms),
        }
    }
}

/// Dice that fall the same way for the same seed.
pub(crate) struct SimDice(Mutex<Rng>);

impl SimDice {
    pub(crate) fn new(seed: u64) -> Self {
        SimDice(Mutex::new(Rng::new(seed ^ 0xD1CE)))
    }
}

impl Dice for SimDice {
    fn roll(&self) -> Chance {
        let mut rng = self.0.lock().unwrap();
        Chance(u128::from(rng.next()) << 64 | u128::from(rng.next()))
    }
}
