//! What a node keeps in memory of what was set in the store: the credentials, and of the policies
//! what a submit must know.
//!
//! A request must not cost a question to the store, and what one node sets must hold at every other
//! node when the setter is answered. So the store counts what is set, every node looks at that
//! count once a second and whenever another node says that something was set, reads again what has
//! changed, and confirms the count in its row. The setter waits for the confirmations of all live
//! nodes.
//!
//! A node that the others take to be lost is not waited for. Therefore a node acts by its memory
//! only for [`SETTINGS_TRUSTED_FOR`] after a look, and each look begins with a sign of life that
//! the others can see: a process that was paused, or has lost the store, looks again before it
//! serves.

use crate::{Error, Platform, catalogue::DeclaredTypes, membership::Membership};
use engine::{ApiKey, KeyId, Principal, SigningKey};
use std::{
    collections::HashMap,
    sync::{Arc, OnceLock, RwLock, RwLockReadGuard, RwLockWriteGuard},
};
use store::{Notification, Reading, SETTINGS_TRUSTED_FOR, StoreError, UnconfirmedNode};

/// All credentials of a store, as they were when a node looked.
#[derive(Default)]
pub struct Credentials {
    keys: HashMap<KeyId, KnownKey>,
    /// Those that sign status addresses, oldest first, revoked ones included.
    pub signing_keys: Vec<SigningKey>,
}

/// An API key, and who comes with it.
pub struct KnownKey {
    /// The key, good or not.
    pub key: ApiKey,
    /// Its owner.
    pub principal: Arc<Principal>,
}

impl Credentials {
    fn new(keys: Vec<ApiKey>, signing_keys: Vec<SigningKey>) -> Self {
        let keys = keys.into_iter().map(|key| (key.id, KnownKey::new(key))).collect();
        Credentials { keys, signing_keys }
    }

    /// The API key of this name, good or not.
    pub fn key(&self, id: KeyId) -> Option<&KnownKey> {
        self.keys.get(&id)
    }
}

impl KnownKey {
    fn new(key: ApiKey) -> Self {
        let (who, grant) = (key.id.principal().into(), key.grant.clone());
        let principal = Arc::new(Principal { who, grant, expires_at: key.expires_at });
        KnownKey { key, principal }
    }
}

/// All that one look has read.
#[derive(Clone, Default)]
pub(crate) struct Snapshot {
    credentials: Arc<Credentials>,
    pub(crate) types: Arc<DeclaredTypes>,
}

#[derive(Default)]
pub(crate) struct SettingsCache {
    state: RwLock<State>,
    /// The node that confirms what it acts by; nothing where no other node can set anything.
    member: OnceLock<Arc<Membership>>,
}

#[derive(Default)]
struct State {
    snapshot: Snapshot,
    /// The store's count when the snapshot was read. What was read may be newer, never older.
    version: u64,
    looks: u64,
    /// The latest look whose answer was kept; 0 before the first.
    kept_look: u64,
    /// Looks that had begun when the snapshot was kept.
    looks_when_kept: u64,
    /// Something was set here when so many looks had begun: an answer to one of them is too old.
    changed_at_look: u64,
    /// When the youngest look began that found nothing newer than what is kept.
    looked_at: Option<Reading>,
    closed: bool,
}

struct CacheRead {
    number: u64,
    began: Reading,
    /// The version that is kept; nothing where it must be read again in any case.
    known: Option<u64>,
}

impl State {
    fn is_known(&self) -> bool {
        self.kept_look > self.changed_at_look
    }

    /// The clock is read only where another node may set something: every request asks.
    fn is_current(&self, is_member: bool, now: impl FnOnce() -> Reading) -> bool {
        self.is_known() && !self.closed && (!is_member || self.was_looked_at(now()))
    }

    fn note_look(&mut self, look: &CacheRead) {
        if self.looked_at.is_none_or(|at| at.monotonic < look.began.monotonic) {
            self.looked_at = Some(look.began);
        }
    }

    /// By both clocks: the monotonic one stands still while a virtual machine is suspended, and the
    /// wall clock may be set back.
    fn was_looked_at(&self, now: Reading) -> bool {
        self.looked_at.is_some_and(|at| {
            now.monotonic.saturating_sub(at.monotonic) < SETTINGS_TRUSTED_FOR
                && now.wall.since(at.wall) < SETTINGS_TRUSTED_FOR
        })
    }
}

impl SettingsCache {
    pub(crate) fn join(&self, member: Arc<Membership>) {
        let first = self.member.set(member);
        assert!(first.is_ok(), "a platform belongs to one node");
    }

    /// Something is being set here. However that ends, what is kept is too old afterwards.
    pub(crate) fn change(&self) -> SettingsChange<'_> {
        SettingsChange(self)
    }

    fn begin(&self, began: Reading) -> CacheRead {
        let mut state = self.write();
        state.looks += 1;
        let known = state.is_known().then_some(state.version);
        CacheRead { number: state.looks, began, known }
    }

    /// Keeps what a look has read, unless what is kept is newer: looks overlap, and the one that
    /// began first may have read the store's count last. Gives the version that is kept then.
    fn keep(&self, look: &CacheRead, version: u64, snapshot: Snapshot) -> u64 {
        let mut state = self.write();
        // A look that began after the other was kept has seen all that was set before, also where
        // the count has gone back because a database was restored.
        let is_newer = look.number > state.looks_when_kept
            || version > state.version
            || (version == state.version && look.number > state.kept_look);
        if is_newer {
            state.version = version;
            state.snapshot = snapshot;
            state.looks_when_kept = state.looks;
        }
        state.kept_look = state.kept_look.max(look.number);
        state.note_look(look);
        state.version
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().expect(UNPOISONED)
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().expect(UNPOISONED)
    }
}

pub(crate) struct SettingsChange<'a>(&'a SettingsCache);

impl Drop for SettingsChange<'_> {
    fn drop(&mut self) {
        let mut state = self.0.write();
        state.changed_at_look = state.looks;
    }
}

impl Platform {
    /// The credentials that this node may act by now; nothing where it has to look first
    /// ([`Platform::look_at_settings`]).
    pub fn credentials(&self) -> Option<Arc<Credentials>> {
        self.current_settings().map(|settings| settings.credentials)
    }

    pub(crate) fn current_settings(&self) -> Option<Snapshot> {
        let state = self.settings_cache.read();
        let is_member = self.settings_cache.member.get().is_some();
        state.is_current(is_member, || self.clock.read()).then(|| state.snapshot.clone())
    }

    /// The credentials that were read last, however long ago.
    pub fn last_credentials(&self) -> Arc<Credentials> {
        self.settings_cache.read().snapshot.credentials.clone()
    }

    /// Reads what was set since the last look, and confirms that this node acts by it.
    pub async fn look_at_settings(&self) -> Result<(), Error> {
        self.read_settings().await.map(drop)
    }

    /// The same, and gives the credentials that were in force when the look began. They stay good
    /// for the request that asked for them, however much is set here meanwhile.
    pub async fn look_at_credentials(&self) -> Result<Arc<Credentials>, Error> {
        Ok(self.read_settings().await?.credentials)
    }

    pub(crate) async fn read_settings(&self) -> Result<Snapshot, Error> {
        let cache = &self.settings_cache;
        let look = cache.begin(self.clock.read());
        if cache.read().closed {
            return Err(StoreError::Unavailable(None).into());
        }
        // The sign of life comes before the look. A setter that saw none, and so did not wait for
        // this node, had committed by then, and the look finds what it set.
        self.confirm(look.known.unwrap_or(0)).await?;
        let version = self.store.settings_version().await?;
        if look.known == Some(version) {
            let mut state = cache.write();
            state.note_look(&look);
            return Ok(state.snapshot.clone());
        }
        let before = cache.read().snapshot.types.clone();
        let types = Arc::new(DeclaredTypes::of(self.store.policies().await?, &before));
        let (keys, signing_keys) = (self.store.keys(None).await?, self.store.signing_keys().await?);
        let credentials = Arc::new(Credentials::new(keys, signing_keys));
        let snapshot = Snapshot { credentials, types };
        let kept = cache.keep(&look, version, snapshot.clone());
        // What this node acts by, which is not always what this look has read.
        self.confirm(kept).await?;
        Ok(snapshot)
    }

    async fn confirm(&self, version: u64) -> Result<(), Error> {
        if let Some(node) = self.settings_cache.member.get() {
            self.store.confirm_settings(&node.info(), version).await?;
        }
        Ok(())
    }

    /// Has what was set here read again, and lets other nodes know. The change is made whatever
    /// becomes of this: where the store cannot be asked, the next request looks before it is
    /// served.
    pub(crate) async fn apply_settings(&self) {
        self.writes.notify_peers(Notification { settings: true, ..Notification::default() });
        if let Err(error) = self.look_at_settings().await {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(error, "settings were changed and cannot be read again yet");
        }
    }

    /// The nodes that have not confirmed yet what this node knows to be set.
    pub async fn unconfirmed_nodes(&self) -> Result<Vec<UnconfirmedNode>, Error> {
        if !self.settings_cache.read().is_known() {
            self.look_at_settings().await?;
        }
        let version = self.settings_cache.read().version;
        Ok(self.store.unconfirmed_nodes(version).await?)
    }

    /// Confirms whatever will be set: a node that serves nothing any more must not keep setters
    /// waiting.
    pub(crate) async fn leave_settings(&self) -> Result<(), Error> {
        self.settings_cache.write().closed = true;
        self.confirm(u64::MAX).await
    }
}

const UNPOISONED: &str = "no code panics while it holds the settings";

#[cfg(test)]
mod tests {
    use super::*;
    use engine::{Entropy, Timestamp};
    use std::time::Duration;

    fn at(seconds: u64) -> Reading {
        let wall = Timestamp::from_unix_ms(1_800_000_000_000) + Duration::from_secs(seconds);
        Reading { wall, monotonic: Duration::from_secs(seconds) }
    }

    fn signing(number: u128) -> Snapshot {
        let secret = [Entropy(number), Entropy(number)];
        let key = SigningKey::new(Entropy(number << 64), secret, Timestamp::default());
        let credentials = Arc::new(Credentials::new(Vec::new(), vec![key]));
        Snapshot { credentials, ..Snapshot::default() }
    }

    #[test]
    fn what_an_older_look_brings_is_not_put_over_a_newer_one() {
        let cache = SettingsCache::default();
        let (slow, quick) = (cache.begin(at(1)), cache.begin(at(2)));
        cache.keep(&quick, 7, signing(2));
        cache.keep(&slow, 6, signing(1));
        let state = cache.read();
        assert_eq!(state.version, 7);
        assert_eq!(state.snapshot.credentials.signing_keys, signing(2).credentials.signing_keys);
    }

    /// Looks overlap: which one began first says nothing about which one has read the count first.
    #[test]
    fn what_is_confirmed_is_what_is_kept_however_looks_overlap() {
        let cache = SettingsCache::default();
        let (first, second) = (cache.begin(at(1)), cache.begin(at(2)));
        assert_eq!(cache.keep(&second, 7, signing(7)), 7);
        assert_eq!(cache.keep(&first, 8, signing(8)), 8, "it began first and has seen more");
        let (first, second) = (cache.begin(at(3)), cache.begin(at(4)));
        assert_eq!(cache.keep(&first, 10, signing(10)), 10);
        assert_eq!(cache.keep(&second, 9, signing(9)), 10, "it began last and has seen less");
        assert_eq!(
            cache.read().snapshot.credentials.signing_keys,
            signing(10).credentials.signing_keys
        );
    }

    #[test]
    fn a_count_that_went_back_with_a_restored_database_is_followed() {
        let cache = SettingsCache::default();
        let before = cache.begin(at(1));
        cache.keep(&before, 8, signing(8));
        let after = cache.begin(at(2));
        assert_eq!(cache.keep(&after, 3, signing(3)), 3);
    }

    #[test]
    fn a_look_that_began_before_something_was_set_here_does_not_count() {
        let cache = SettingsCache::default();
        let early = cache.begin(at(1));
        drop(cache.change());
        cache.keep(&early, 1, signing(1));
        assert!(!cache.read().is_current(false, || at(1)));
        let late = cache.begin(at(2));
        assert_eq!(late.known, None, "it reads everything again, whatever the version");
        cache.keep(&late, 1, signing(2));
        assert!(cache.read().is_current(false, || at(1_000)), "nobody else can set anything");
        assert_eq!(cache.begin(at(3)).known, Some(1));
    }

    #[test]
    fn memory_is_trusted_for_less_time_than_a_sign_of_life_lasts_by_either_clock() {
        assert!(SETTINGS_TRUSTED_FOR < store::NODE_LOST_AFTER);
        let cache = SettingsCache::default();
        let look = cache.begin(at(10));
        cache.keep(&look, 1, signing(1));
        let is_current = |now| cache.read().is_current(true, || now);
        assert!(is_current(at(17)) && !is_current(at(18)));
        assert!(!is_current(Reading { monotonic: Duration::from_secs(11), ..at(60) }), "suspended");
        assert!(!is_current(Reading { monotonic: Duration::from_secs(60), ..at(11) }), "set back");
        let look = cache.begin(at(12));
        cache.write().note_look(&look);
        assert!(is_current(at(19)) && !is_current(at(20)));
        cache.write().closed = true;
        assert!(!is_current(at(12)));
    }
}
