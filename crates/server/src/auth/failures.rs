//! Counts refused credentials, and logs them at a bounded rate.
//!
//! Attempts to guess keys must be visible, and must not fill the log. The first failure of a kind
//! is logged at once; later ones are counted, and logged as one line every few seconds. Nothing of
//! the credential is kept.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::time::sleep;
use tracing::warn;

/// Why a credential was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CredentialFailure {
    /// There was none.
    Missing,
    /// An API key that is unknown, expired or revoked.
    Key,
    /// Neither an API key nor a token of the trusted issuer.
    Token,
    /// A signed URL that is forged, expired or for another job.
    Signature,
}

impl CredentialFailure {
    /// All of them in their order, each with its name in metrics and logs.
    pub(crate) const ALL: [(CredentialFailure, &str); 4] = [
        (CredentialFailure::Missing, "missing"),
        (CredentialFailure::Key, "key"),
        (CredentialFailure::Token, "token"),
        (CredentialFailure::Signature, "signature"),
    ];
}

/// How often a kind of failure is logged at most.
const LOG_INTERVAL: Duration = Duration::from_secs(5);

/// The failures so far.
#[derive(Clone, Default)]
pub(crate) struct CredentialFailures(Arc<[Kind; CredentialFailure::ALL.len()]>);

#[derive(Default)]
struct Kind {
    total: AtomicU64,
    pending: Mutex<Pending>,
}

/// Failures that are not logged yet.
#[derive(Default)]
struct Pending {
    count: u64,
    /// A line was just written, and the next one is scheduled.
    line_is_scheduled: bool,
}

impl CredentialFailures {
    /// The number of these failures since the start.
    pub(crate) fn total(&self, failure: CredentialFailure) -> u64 {
        self.0[failure as usize].total.load(Ordering::Relaxed)
    }

    /// Counts a failure, and logs it now or a little later.
    pub(crate) fn count(&self, failure: CredentialFailure) {
        let kind = &self.0[failure as usize];
        kind.total.fetch_add(1, Ordering::Relaxed);
        let mut pending = kind.pending.lock().expect(UNPOISONED);
        if pending.line_is_scheduled {
            pending.count += 1;
            return;
        }
        pending.line_is_scheduled = true;
        drop(pending);
        write_line(failure, 1);
        // One task for each kind at most. It ends after an interval without a failure.
        let failures = self.clone();
        tokio::spawn(async move {
            loop {
                sleep(LOG_INTERVAL).await;
                let mut pending = failures.0[failure as usize].pending.lock().expect(UNPOISONED);
                let count = std::mem::take(&mut pending.count);
                pending.line_is_scheduled = count > 0;
                drop(pending);
                if count == 0 {
                    break;
                }
                write_line(failure, count);
            }
        });
    }
}

fn write_line(failure: CredentialFailure, count: u64) {
    warn!(reason = CredentialFailure::ALL[failure as usize].1, count, "credentials refused");
}

const UNPOISONED: &str = "no code panics while it holds the lock of the failures";

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_kind_is_quiet_after_a_line_and_speaks_again_later() {
        let failures = CredentialFailures::default();
        let state = || {
            let pending = failures.0[CredentialFailure::Key as usize].pending.lock().unwrap();
            (pending.count, pending.line_is_scheduled)
        };
        for _ in 0..100 {
            failures.count(CredentialFailure::Key);
        }
        assert_eq!((state(), failures.total(CredentialFailure::Key)), ((99, true), 100));
        assert_eq!(failures.total(CredentialFailure::Token), 0);
        sleep(LOG_INTERVAL + Duration::from_millis(1)).await;
        assert_eq!(state(), (0, true), "they were logged, and the next line is scheduled");
        sleep(LOG_INTERVAL).await;
        assert_eq!(state(), (0, false), "a whole interval brought nothing");
        failures.count(CredentialFailure::Key);
        assert_eq!(state(), (0, true));
    }
}
