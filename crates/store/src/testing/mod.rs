//! Test doubles for time and randomness: time stands still until a test moves the clock, and a seed
//! yields the same numbers every time.

#[cfg(feature = "postgres")]
mod database;
mod fault_injector;

#[cfg(feature = "postgres")]
pub use database::{control_clock, wipe};
pub use fault_injector::FaultInjector;

use crate::{
    clock::{Clock, Reading},
    random::RandomSource,
};
use engine::{Entropy, Timestamp};
use std::{
    sync::{Mutex, MutexGuard},
    time::Duration,
};

/// A clock that only the test moves.
pub struct ManualClock {
    current: Mutex<Reading>,
    /// Called whenever the test moves the clock.
    follower: Mutex<Option<Follower>>,
}

/// A callback that makes another clock follow a [`ManualClock`].
pub(crate) type Follower = Box<dyn Fn(Reading) + Send + Sync>;

impl ManualClock {
    /// A clock that shows `wall`.
    pub fn at(wall: Timestamp) -> Self {
        let current = Mutex::new(Reading { wall, monotonic: Duration::ZERO });
        ManualClock { current, follower: Mutex::new(None) }
    }

    /// Advances both clocks.
    pub fn pass(&self, span: Duration) {
        let mut current = self.current();
        current.wall = current.wall + span;
        current.monotonic = current.monotonic.saturating_add(span);
        self.notify_follower(*current);
    }

    /// Sets the wall clock off by `ms`; no time elapses.
    pub fn set_off(&self, ms: i64) {
        let mut current = self.current();
        current.wall = Timestamp::from_unix_ms(current.wall.unix_ms().saturating_add(ms));
        self.notify_follower(*current);
    }

    /// Calls `follower` for every move from now on, before any reader sees the new time.
    pub(crate) fn set_follower(&self, follower: Follower) {
        *self.follower.lock().expect("no thread panics while it holds the lock on the follower") =
            Some(follower);
    }

    fn notify_follower(&self, reading: Reading) {
        if let Some(follower) = &*self
            .follower
            .lock()
            .expect("no thread panics while it holds the lock on the follower")
        {
            follower(reading);
        }
    }

    fn current(&self) -> MutexGuard<'_, Reading> {
        self.current.lock().expect("no thread panics while it holds the lock on the clock")
    }
}

impl Clock for ManualClock {
    fn read(&self) -> Reading {
        *self.current()
    }
}

/// A random source that yields the same numbers for the same seed. Not for secrets.
///
/// SplitMix64, written out: a seed must mean the same simulation next year, whatever a crate
/// changes.
pub struct SeededRandom(Mutex<u64>);

impl SeededRandom {
    /// The random source of `seed`.
    pub fn new(seed: u64) -> Self {
        SeededRandom(Mutex::new(seed))
    }

    /// The next 64 bits.
    pub fn next(&self) -> u64 {
        let mut state =
            self.0.lock().expect("no thread panics while it holds the lock on the state");
        *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (*state ^ (*state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

impl RandomSource for SeededRandom {
    fn entropy(&self) -> Entropy {
        Entropy(u128::from(self.next()) << 64 | u128::from(self.next()))
    }
}
