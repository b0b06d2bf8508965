//! The API keys, known by heart: a request with a key costs no question to the store.

use crate::{Door, no::Reply};
use engine::{ApiKey, KeyId, KeySecret, Principal};
use platform::Node;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, RwLock},
    time::Duration,
};

/// All keys, as they were when they were last read.
#[derive(Default)]
pub(crate) struct KeyRing {
    keys: RwLock<HashMap<KeyId, Known>>,
    /// When they were last read, by the monotonic clock.
    read_at: Mutex<Duration>,
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
        if self.is_due(door, TRUSTED_FOR) {
            self.read(&door.node).await?;
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
        let now = door.monotonic();
        let mut read_at = self.read_at.lock().expect(UNPOISONED);
        let due = now.saturating_sub(*read_at) >= after;
        if due {
            *read_at = now;
        }
        due
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
