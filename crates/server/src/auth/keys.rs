//! The credentials that this node acts by. The node keeps them in memory, so that a request costs
//! no query to the store. This module reads them again where the copy is too old, or does not
//! contain what a client sent.

use crate::{AppState, error::Reply};
use engine::{KeySecret, Principal};
use platform::{Credentials, Node};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::Mutex,
    time::{Instant, sleep_until},
};

#[derive(Default)]
pub(crate) struct CredentialLookup {
    /// One read at a time, shared by all requests that wait for one. Holds when the last read for
    /// an unknown credential began.
    refresh_lock: Mutex<Option<Instant>>,
}

/// The state of a key that a client sent.
pub(super) enum KeyState {
    /// The key is valid now, and this is its owner.
    Valid(Arc<Principal>),
    /// The key is revoked or has expired. Its secret was right, so the log may name its owner.
    Ended(Arc<Principal>),
    /// No key has this secret.
    Unknown,
}

/// The minimum interval between reads for unknown credentials: a client that guesses keys must not
/// keep the store busy. Its requests wait for the next read, and all of them share it.
const READ_INTERVAL_MIN: Duration = Duration::from_millis(100);

impl CredentialLookup {
    /// The credentials that are in force now.
    pub(crate) async fn current(&self, node: &Node) -> Result<Arc<Credentials>, platform::Error> {
        if let Some(credentials) = node.credentials() {
            return Ok(credentials);
        }
        let _refreshing = self.refresh_lock.lock().await;
        if let Some(credentials) = node.credentials() {
            return Ok(credentials);
        }
        node.refresh_credentials().await
    }

    /// The current state of the key with this secret.
    pub(super) async fn find(&self, app: &AppState, secret: &KeySecret) -> Reply<KeyState> {
        let credentials = self.current(&app.node).await?;
        match state(&credentials, secret, app) {
            // A known key that is revoked or expired stays so: no read is needed.
            KeyState::Unknown => {
                let credentials = self.read_for_unknown(&app.node).await?;
                Ok(state(&credentials, secret, app))
            }
            known @ (KeyState::Valid(_) | KeyState::Ended(_)) => Ok(known),
        }
    }

    /// The credentials by a read that began after this call: another node may have just made the
    /// key.
    pub(crate) async fn read_for_unknown(
        &self,
        node: &Node,
    ) -> Result<Arc<Credentials>, platform::Error> {
        if node.is_shared() {
            let called_at = Instant::now();
            let mut last = self.refresh_lock.lock().await;
            if last.is_none_or(|read_began| read_began < called_at) {
                if let Some(read_began) = *last {
                    sleep_until(read_began + READ_INTERVAL_MIN).await;
                }
                *last = Some(Instant::now());
                return node.refresh_credentials().await;
            }
        }
        self.current(node).await
    }
}

fn state(credentials: &Credentials, secret: &KeySecret, app: &AppState) -> KeyState {
    let matching = credentials
        .key(secret.id())
        .filter(|known_state| known_state.key.digest.matches(&secret.digest()));
    let Some(known_state) = matching else { return KeyState::Unknown };
    let principal = known_state.principal.clone();
    match known_state.key.is_valid(app.now()) {
        true => {
            app.node.note_key_use(known_state, app.now());
            KeyState::Valid(principal)
        }
        false => KeyState::Ended(principal),
    }
}
