//! The credentials that this node acts by. The node keeps them in memory, so that a request costs
//! no question to the store; here they are looked at again where memory is too old, or does not
//! know what a client sent.

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
    /// One look at a time, which all requests share that wait for one. Holds when the last look for
    /// an unknown credential began.
    looking: Mutex<Option<Instant>>,
}

/// What is known of a key that a client showed.
pub(super) enum KeyState {
    /// It is good now, and this is its owner.
    Good(Arc<Principal>),
    /// It is revoked or has expired. Its secret was right, so the log may name its owner.
    Ended(Arc<Principal>),
    /// No key has this secret.
    Unknown,
}

/// Looks for unknown credentials are at least this far apart: a client that tries keys must not
/// keep the store busy. Its requests wait for the next look, and all of them share it.
const LOOKS_APART: Duration = Duration::from_millis(100);

impl CredentialLookup {
    /// The credentials that are in force now.
    pub(crate) async fn current(&self, node: &Node) -> Result<Arc<Credentials>, platform::Error> {
        if let Some(credentials) = node.credentials() {
            return Ok(credentials);
        }
        let _looking = self.looking.lock().await;
        if let Some(credentials) = node.credentials() {
            return Ok(credentials);
        }
        node.look_at_credentials().await
    }

    /// How the key with this secret stands now.
    pub(super) async fn find(&self, app: &AppState, secret: &KeySecret) -> Reply<KeyState> {
        let known = self.current(&app.node).await?;
        match state(&known, secret, app) {
            // A key that is known and revoked or expired stays so: that costs no look.
            KeyState::Unknown => {
                let known = self.look_for_unknown(&app.node).await?;
                Ok(state(&known, secret, app))
            }
            found @ (KeyState::Good(_) | KeyState::Ended(_)) => Ok(found),
        }
    }

    /// The credentials by a look that began after this call: another node may just have made one.
    pub(crate) async fn look_for_unknown(
        &self,
        node: &Node,
    ) -> Result<Arc<Credentials>, platform::Error> {
        if node.is_shared() {
            let asked = Instant::now();
            let mut last = self.looking.lock().await;
            if last.is_none_or(|began| began < asked) {
                if let Some(began) = *last {
                    sleep_until(began + LOOKS_APART).await;
                }
                *last = Some(Instant::now());
                return node.look_at_credentials().await;
            }
        }
        self.current(node).await
    }
}

fn state(known: &Credentials, secret: &KeySecret, app: &AppState) -> KeyState {
    let same = known.key(secret.id()).filter(|known| known.key.digest.is(&secret.digest()));
    let Some(known) = same else { return KeyState::Unknown };
    let principal = known.principal.clone();
    match known.key.is_good(app.now()) {
        true => KeyState::Good(principal),
        false => KeyState::Ended(principal),
    }
}
