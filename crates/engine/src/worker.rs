//! Whether a worker is alive: the one rule behind `explain`, queues, lists of workers, and metrics.
//!
//! A worker gives signs of life: a claim, a waiting claim that is still open, a heartbeat. One that
//! holds leases owes a heartbeat every third of its lease. One that holds none owes a sign every
//! [`WORKER_SIGN_EVERY`]. After three missed signs it is doubted. One that signs off is gone at
//! once.

use crate::{
    text::{Host, Scope, WorkerId},
    time::Timestamp,
};
use std::time::Duration;

/// How often a worker without leases gives a sign of life. Nodes give it for claims that wait.
pub const WORKER_SIGN_EVERY: Duration = Duration::from_secs(10);

/// How long a worker without leases may be silent: three signs.
pub const WORKER_SILENCE_MAX: Duration = WORKER_SIGN_EVERY.saturating_mul(3);

/// Whether a worker last seen at `seen_at`, whose longest lease ends at `leased_until`, is alive.
/// The lease is three heartbeats long, so its end means three missed signs, too.
pub fn is_live(seen_at: Timestamp, leased_until: Option<Timestamp>, now: Timestamp) -> bool {
    seen_at + WORKER_SILENCE_MAX > now || leased_until.is_some_and(|until| until > now)
}

/// The last sign of life of the workers that may claim a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastSign {
    /// The worker.
    pub worker: WorkerId,
    /// The tenants whose jobs it works on.
    pub scope: Scope,
    /// On which machine, where the worker named it.
    pub host: Option<Host>,
    /// When it gave the sign.
    pub at: Timestamp,
    /// The sign was that it signed off.
    pub left: bool,
}

impl LastSign {
    /// The worker and its machine, for a sentence.
    pub(crate) fn who(&self) -> String {
        match &self.host {
            Some(host) => format!("{} on {host}", self.worker),
            None => self.worker.to_string(),
        }
    }
}
