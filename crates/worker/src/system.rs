//! The machine's clock and random source, for a worker without a platform that would pass them in.

use engine::Entropy;
use std::time::Instant;

/// The monotonic clock of the machine. It is not tokio's: a test that pauses its runtime's clock
/// pauses no thread that is stuck in a handler.
#[expect(clippy::disallowed_methods, reason = "this is the place that asks the system")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "this is the place that asks the system")]
pub(crate) fn random() -> Entropy {
    let mut bytes = [0; 16];
    // Without random numbers, two runners could share a name and their claims could collide.
    getrandom::fill(&mut bytes).expect("the operating system gives random numbers");
    Entropy(u128::from_le_bytes(bytes))
}
