//! Time and chance in the hands of a test: nothing happens until somebody moves the clock, and a
//! seed rolls the same dice every time.

#[cfg(feature = "postgres")]
mod database;
mod fault_injector;

#[cfg(feature = "postgres")]
pub use database::{take_the_clock, wipe};
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

/// A clock that only a hand moves.
pub struct ManualClock {
    hands: Mutex<Reading>,
    /// Told whenever somebody moves the hands.
    follower: Mutex<Option<Follower>>,
}

/// A clock elsewhere that goes with one in the hands of a test.
pub(crate) type Follower = Box<dyn Fn(Reading) + Send + Sync>;

impl ManualClock {
    /// A clock that stands at `wall`.
    pub fn at(wall: Timestamp) -> Self {
        let hands = Mutex::new(Reading { wall, monotonic: Duration::ZERO });
        ManualClock { hands, follower: Mutex::new(None) }
    }

    /// Time goes by.
    pub fn pass(&self, span: Duration) {
        let mut hands = self.hands();
        hands.wall = hands.wall + span;
        hands.monotonic = hands.monotonic.saturating_add(span);
        self.tell(*hands);
    }

    /// Somebody sets the wall clock, and no time goes by.
    pub fn set_off(&self, ms: i64) {
        let mut hands = self.hands();
        hands.wall = Timestamp::from_unix_ms(hands.wall.unix_ms().saturating_add(ms));
        self.tell(*hands);
    }

    /// From now on `follower` is told of every move, before anybody else can read it.
    pub(crate) fn take_along(&self, follower: Follower) {
        *self.follower.lock().expect("nothing panics with it in hand") = Some(follower);
    }

    fn tell(&self, reading: Reading) {
        if let Some(follower) = &*self.follower.lock().expect("nothing panics with it in hand") {
            follower(reading);
        }
    }

    fn hands(&self) -> MutexGuard<'_, Reading> {
        self.hands.lock().expect("nothing panics with the clock in hand")
    }
}

impl Clock for ManualClock {
    fn read(&self) -> Reading {
        *self.hands()
    }
}

/// Dice that fall the same way for the same seed. Not for secrets.
///
/// SplitMix64, written out: a seed must mean the same world next year, whatever a crate changes.
pub struct SeededRandom(Mutex<u64>);

impl SeededRandom {
    /// The dice of `seed`.
    pub fn new(seed: u64) -> Self {
        SeededRandom(Mutex::new(seed))
    }

    /// 64 bits.
    pub fn next(&self) -> u64 {
        let mut state = self.0.lock().expect("nothing panics with the dice in hand");
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
