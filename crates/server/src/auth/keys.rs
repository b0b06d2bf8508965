//! The API keys, known by heart: a request with a key costs no question to the store.

use crate::{Door, no::Reply};
use engine::{ApiKey, KeyId, KeySecret, Principal};
use platform::Node;
use std::{
    collections::HashMap,
    sync::{
        Arc, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// All keys, as they were when they were last read.
#[derive(Default)]
pub(crate) struct KeyRing {
    keys: RwLock<HashMap<KeyId, Known>>,
    reading: tokio::sync::Mutex<()>,
    /// When they were last read, by the monotonic clock.
    read_at_ms: AtomicU64,
}

struct Known {
    key: ApiKey,
    principal: Arc<Principal>,
}

/// A key that is not known makes us look again, but not more often than this: whoever tries keys must not keep
/// the store busy.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// What other nodes have revoked is known here after this long at most.
const TRUSTED_FOR: Duration = Duration::from_secs(5);

impl KeyRing {
    /// Reads all keys.
    pub(crate) async fn read(&self, node: &Node) -> Result<(), platform::Error> {
        // One after the other: a slow reading that began before a key was revoked must not be put over a newer one.
        let _turn = self.reading.lock().await;
        let keys = node.keys(&engine::Scope::All).await?;
        let known = keys.into_iter().map(|key| (key.id, Known::of(key))).collect();
        *self.keys.write().expect(UNPOISONED) = known;
        Ok(())
    }

    /// Whose key this is, if it opens this door now.
    pub(crate) async fn find(
        &self,
        door: &Door,
        secret: &KeySecret,
    ) -> Reply<Option<Arc<Principal>>> {
        if self.is_due(door, TRUSTED_FOR)
            && let Err(error) = self.read(&door.node).await
        {
            // A store that is away for a moment is no reason to forget everybody.
            let error: &dyn std::error::Error = &error;
            tracing::warn!(error, "the keys could not be read; those that are known stay");
        }
        let found = self.look(door, secret);
        if found.is_some() || !self.is_due(door, LOOK_AGAIN) {
            return Ok(found);
        }
        self.read(&door.node).await?;
        Ok(self.look(door, secret))
    }

    fn look(&self, door: &Door, secret: &KeySecret) -> Option<Arc<Principal>> {
        let keys = self.keys.read().expect(UNPOISONED);
        let known = keys.get(&secret.id())?;
        let good = known.key.digest.is(&secret.digest()) && known.key.is_good(door.now());
        good.then(|| known.principal.clone())
    }

    /// Whether it is time to read again; then it is this caller who does.
    fn is_due(&self, door: &Door, after: Duration) -> bool {
        let now = u64::try_from(door.monotonic().as_millis()).unwrap_or(u64::MAX);
        let read_at = self.read_at_ms.load(Ordering::Relaxed);
        let due = u128::from(now.saturating_sub(read_at)) >= after.as_millis();
        let mine = || {
            let swap = self.read_at_ms.compare_exchange(
                read_at,
                now,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            swap.is_ok()
        };
        due && mine()
    }
}

impl Known {
    fn of(key: ApiKey) -> Self {
        let who = format!("key:{}", key.id).into();
        let principal = Arc::new(Principal { who, grant: key.grant.clone() });
        Known { key, principal }
    }
}

const UNPOISONED: &str = "nothing panics with the keys in hand";
