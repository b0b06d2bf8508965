//! Whether a worker is alive: a claim or a heartbeat keeps it so.

use crate::time::Timestamp;
use std::time::Duration;

/// How long a worker may be silent. Longer than the longest wait of a claim, so that a worker that
/// waits for jobs does not count as lost.
pub const WORKER_SILENCE_MAX: Duration = Duration::from_secs(90);

/// Whether a worker last seen at `seen_at`, whose longest lease ends at `leased_until`, is alive.
pub fn is_live(seen_at: Timestamp, leased_until: Option<Timestamp>, now: Timestamp) -> bool {
    seen_at + WORKER_SILENCE_MAX > now || leased_until.is_some_and(|until| until > now)
}
