//! The clock, the random source and the name of the machine. The only file that asks the operating
//! system for them.

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
    #[expect(clippy::disallowed_methods, reason = "the one file that asks the operating system")]
    #[expect(clippy::new_without_default, reason = "each clock starts a measurement of its own")]
    pub fn new() -> Self {
        SystemClock { started: Instant::now() }
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one file that asks the operating system")]
    fn read(&self) -> Reading {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let wall = i64::try_from(wall.as_millis()).unwrap_or(i64::MAX);
        Reading { wall: Timestamp::from_unix_ms(wall), monotonic: self.started.elapsed() }
    }
}

/// The name of this machine.
pub(crate) fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The operating system's randomness.
pub struct SystemRandom;

impl RandomSource for SystemRandom {
    fn entropy(&self) -> Entropy {
        BUFFER.with_borrow_mut(RandomBuffer::entropy)
    }
}

/// How many values are fetched at a time. Each job needs four, and a system call for each would be
/// a twentieth of the cost of a job.
const VALUES: usize = 32;

thread_local! {
    static BUFFER: RefCell<RandomBuffer> = const { RefCell::new(RandomBuffer { values: [0; VALUES], remaining: 0 }) };
}

/// Random values that were not given out yet.
struct RandomBuffer {
    values: [u128; VALUES],
    remaining: usize,
}

impl RandomBuffer {
    fn entropy(&mut self) -> Entropy {
        if self.remaining == 0 {
            self.fill();
        }
        self.remaining -= 1;
        // A value that was given out must not stay in memory: it may be the secret of a lease.
        Entropy(mem::take(&mut self.values[self.remaining]))
    }

    #[expect(clippy::disallowed_methods, reason = "the one file that asks the operating system")]
    fn fill(&mut self) {
        let mut bytes = [0; VALUES * 16];
        // Without randomness, lease tokens could be guessed and ids could collide: better to stop.
        getrandom::fill(&mut bytes).expect("the operating system provides random numbers");
        for (entropy, bytes) in self.values.iter_mut().zip(bytes.as_chunks().0) {
            *entropy = u128::from_le_bytes(*bytes);
        }
        self.remaining = VALUES;
    }
}
