//! The machine's own clock and chance, for a worker that has no platform which would pass them in.

use engine::Entropy;
use std::time::Instant;

/// The monotonic clock of the machine. Not tokio's: a test that pauses the clock of its runtime
/// pauses no thread that is stuck in a handler.
#[expect(clippy::disallowed_methods, reason = "this is the place that asks the system")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "this is the place that asks the system")]
pub(crate) fn random() -> Entropy {
    let mut bytes = [0; 16];
    // Without chance, two runners could have one name, and their claims could meet: better to stop.
    getrandom::fill(&mut bytes).expect("the operating system gives random numbers");
    Entropy(u128::from_le_bytes(bytes))
}
