//! The clock and the random source of the machine. The only file that asks the operating system for
//! either.

use engine::{Entropy, Timestamp};
use std::{
    cell::RefCell,
    mem,
    time::{Instant, SystemTime, UNIX_EPOCH},
};
use store::{Clock, RandomSource, Reading};

/// The clocks of this machine.
pub struct SystemClock {
    started: Instant,
}

impl SystemClock {
    /// Starts the monotonic clock at zero.
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
pub struct SystemRandom;

impl RandomSource for SystemRandom {
    fn entropy(&self) -> Entropy {
        CUP.with_borrow_mut(RandomBuffer::entropy)
    }
}

/// How many values are fetched at a time. Each job needs four, and a system call for each would be
/// a twentieth of the cost of a job.
const ROLLS: usize = 32;

thread_local! {
    static CUP: RefCell<RandomBuffer> = const { RefCell::new(RandomBuffer { rolls: [0; ROLLS], left: 0 }) };
}

/// Random values that were not given out yet.
struct RandomBuffer {
    rolls: [u128; ROLLS],
    left: usize,
}

impl RandomBuffer {
    fn entropy(&mut self) -> Entropy {
        if self.left == 0 {
            self.fill();
        }
        self.left -= 1;
        // A value that was given out must not stay in memory: it may be the secret of a lease.
        Entropy(mem::take(&mut self.rolls[self.left]))
    }

    #[expect(clippy::disallowed_methods, reason = "this is the place that asks the system")]
    fn fill(&mut self) {
        let mut bytes = [0; ROLLS * 16];
        // Without randomness, lease tokens could be guessed and ids could collide: better to stop.
        getrandom::fill(&mut bytes).expect("the operating system gives random numbers");
        for (entropy, bytes) in self.rolls.iter_mut().zip(bytes.as_chunks().0) {
            *entropy = u128::from_le_bytes(*bytes);
        }
        self.left = ROLLS;
    }
}
