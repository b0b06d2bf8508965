//! The machine's own clock and chance. The only file that asks the system for either.

use engine::{Chance, Timestamp};
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use store::{Clock, Dice, Reading};

/// The clocks of this machine.
pub struct SystemClock {
    started: Instant,
}

impl SystemClock {
    /// Begins to measure.
    #[expect(clippy::disallowed_methods, reason = "this is the place that asks the system")]
    #[expect(clippy::new_without_default, reason = "beginning to measure is no default")]
    pub fn new() -> Self {
        SystemClock { started: Instant::now() }
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the place that asks the system")]
    fn read(&self) -> Reading {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let wall = i64::try_from(wall.as_millis()).unwrap_or(i64::MAX);
        Reading { wall: Timestamp::from_unix_ms(wall), monotonic: self.started.elapsed() }
    }
}

/// The operating system's randomness.
pub struct SystemDice;

impl Dice for SystemDice {
    #[expect(clippy::disallowed_methods, reason = "this is the place that asks the system")]
    fn roll(&self) -> Chance {
        let mut bytes = [0; 16];
        // Without chance, lease tokens could be guessed and ids could meet: better to stop.
        getrandom::fill(&mut bytes).expect("the operating system gives random numbers");
        Chance(u128::from_le_bytes(bytes))
    }
}
