//! The settings that a node keeps in memory: credentials, and the parts of policies that a submit
//! needs.
//!
//! A request must not cost a read, and a change on one node must be in force on all nodes when its
//! caller is answered. So the store counts changes. Every node reads that count once a second and
//! when a peer notifies it of a change. It reads again what has changed, and confirms the count in
//! its row. The node that made the change waits for the confirmations of all live nodes.
//!
//! It does not wait for a node that counts as lost. Therefore a node acts by its cache only for
//! [`SETTINGS_TRUSTED_FOR`] after a read, and each read begins with a heartbeat that the other
//! nodes can see. A process that was paused, or has lost the store, reads again before it serves.

use crate::{Error, Platform, declared_types::DeclaredTypes, membership::Membership};
use engine::{ApiKey, KeyId, KeyUse, Principal, SigningKey};
use std::{
    collections::HashMap,
    sync::{
        Arc, OnceLock, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicI64, Ordering},
    },
};
use store::{Notification, Reading, SETTINGS_TRUSTED_FOR, StoreError, UnconfirmedNode};

/// All credentials of a store, as of one read.
#[derive(Default)]
pub struct Credentials {
    keys: HashMap<KeyId, CachedKey>,
    /// The keys that sign status URLs, oldest first, revoked ones included.
    pub signing_keys: Vec<SigningKey>,
}

/// An API key and its principal.
pub struct CachedKey {
    /// The key, valid or not.
    pub key: ApiKey,
    /// Its owner.
    pub principal: Arc<Principal>,
    /// The minute of the latest use that this node noted, in Unix milliseconds.
    noted_use_ms: AtomicI64,
}

impl Credentials {
    fn new(keys: Vec<ApiKey>, signing_keys: Vec<SigningKey>) -> Self {
        let keys = keys.into_iter().map(|key| (key.id, CachedKey::new(key))).collect();
        Credentials { keys, signing_keys }
    }

    /// The API key with this id, valid or not.
    pub fn key(&self, id: KeyId) -> Option<&CachedKey> {
        self.keys.get(&id)
    }
}

impl CachedKey {
    fn new(key: ApiKey) -> Self {
        let (who, grant) = (key.id.principal().into(), key.grant.clone());
        let (name, expires_at) = (Some(key.name.clone()), key.expires_at);
        let principal = Arc::new(Principal { who, name, grant, expires_at });
        CachedKey { key, principal, noted_use_ms: AtomicI64::new(i64::MIN) }
    }

    /// Notes a use; `false` where this node has noted that minute already. Every request calls
    /// this, and nearly all of them only read a number.
    pub(crate) fn is_first_of(&self, key_use: KeyUse) -> bool {
        let ms = key_use.time().unix_ms();
        self.noted_use_ms.load(Ordering::Relaxed) < ms
            && self.noted_use_ms.fetch_max(ms, Ordering::Relaxed) < ms
    }
}

/// The result of one read of the settings.
#[derive(Clone, Default)]
pub(crate) struct SettingsSnapshot {
    /// `None` where the store's credentials are damaged: that must not keep jobs from running.
    credentials: Option<Arc<Credentials>>,
    pub(crate) types: Arc<DeclaredTypes>,
}

type Cause = Box<dyn std::error::Error + Send + Sync>;

#[derive(Default)]
pub(crate) struct SettingsCache {
    state: RwLock<State>,
    /// The node that confirms its version; unset where no other node can change settings.
    member: OnceLock<Arc<Membership>>,
}

#[derive(Default)]
struct State {
    snapshot: SettingsSnapshot,
    /// The store's count when the snapshot was read. The snapshot may be newer, never older.
    version: u64,
    reads: u64,
    /// The latest read whose result was kept; 0 before the first.
    kept_read: u64,
    /// How many reads had begun when the snapshot was kept.
    reads_when_kept: u64,
    /// How many reads had begun at the last local change: results of those are too old.
    changed_at_read: u64,
    /// When the latest read began that found nothing newer than the snapshot.
    read_at: Option<Reading>,
    is_closed: bool,
}

struct CacheRead {
    number: u64,
    began: Reading,
    /// The cached version; `None` where the settings must be read again in any case.
    cached_version: Option<u64>,
}

impl State {
    fn has_read_since_change(&self) -> bool {
        self.kept_read > self.changed_at_read
    }

    /// Every request calls this, so the clock is read only where another node may change settings.
    fn is_current(&self, is_member: bool, now: impl FnOnce() -> Reading) -> bool {
        self.has_read_since_change()
            && !self.is_closed
            && (!is_member || self.was_read_lately(now()))
    }

    fn note_read(&mut self, cache_read: &CacheRead) {
        if self.read_at.is_none_or(|at| at.monotonic < cache_read.began.monotonic) {
            self.read_at = Some(cache_read.began);
        }
    }

    /// Checked by both clocks: the monotonic one stands still while a virtual machine is suspended,
    /// and the wall clock may be set back.
    fn was_read_lately(&self, now: Reading) -> bool {
        self.read_at.is_some_and(|at| {
            now.monotonic.saturating_sub(at.monotonic) < SETTINGS_TRUSTED_FOR
                && now.wall.since(at.wall) < SETTINGS_TRUSTED_FOR
        })
    }
}

impl SettingsCache {
    pub(crate) fn set_member(&self, member: Arc<Membership>) {
        let first = self.member.set(member);
        assert!(first.is_ok(), "a platform belongs to one node");
    }

    /// Begins a local change. However it ends, the snapshot counts as too old afterwards.
    pub(crate) fn begin_change(&self) -> SettingsChange<'_> {
        SettingsChange(self)
    }

    fn begin(&self, began: Reading) -> CacheRead {
        let mut state = self.write();
        state.reads += 1;
        let is_complete = state.has_read_since_change() && state.snapshot.credentials.is_some();
        let cached_version = is_complete.then_some(state.version);
        CacheRead { number: state.reads, began, cached_version }
    }

    /// Keeps the result of a read, unless the snapshot is newer: reads overlap, and the one that
    /// began first may have read the store's count last. Returns the version of the snapshot.
    fn keep(&self, cache_read: &CacheRead, version: u64, snapshot: SettingsSnapshot) -> u64 {
        let mut state = self.write();
        // A read that began after the other result was kept has seen all earlier changes. This also
        // holds where the count went back because a database was restored.
        let is_newer = cache_read.number > state.reads_when_kept
            || version > state.version
            || (version == state.version && cache_read.number > state.kept_read);
        if is_newer {
            state.version = version;
            state.snapshot = snapshot;
            state.reads_when_kept = state.reads;
        }
        state.kept_read = state.kept_read.max(cache_read.number);
        state.note_read(cache_read);
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
        state.changed_at_read = state.reads;
    }
}

impl Platform {
    /// The credentials that this node may act by now; `None` where it must first call
    /// [`Platform::refresh_settings`].
    pub fn credentials(&self) -> Option<Arc<Credentials>> {
        self.current_settings()?.credentials
    }

    pub(crate) fn current_settings(&self) -> Option<SettingsSnapshot> {
        let state = self.settings_cache.read();
        let is_member = self.settings_cache.member.get().is_some();
        state.is_current(is_member, || self.clock.read()).then(|| state.snapshot.clone())
    }

    /// The credentials of the last read, however old.
    pub fn last_credentials(&self) -> Arc<Credentials> {
        self.settings_cache.read().snapshot.credentials.clone().unwrap_or_default()
    }

    /// Reads settings that changed since the last read, and confirms that this node acts by them.
    pub async fn refresh_settings(&self) -> Result<(), Error> {
        self.refresh_credentials().await.map(drop)
    }

    /// The same, and returns the credentials that were in force when the read began. They stay
    /// valid for the request that asked for them, even if settings change here meanwhile.
    pub async fn refresh_credentials(&self) -> Result<Arc<Credentials>, Error> {
        let (settings, damage_cause) = self.read_settings().await?;
        settings.credentials.ok_or_else(|| StoreError::Damaged(damage_cause).into())
    }

    /// Returns the settings, and the cause where the credentials are damaged.
    pub(crate) async fn read_settings(&self) -> Result<(SettingsSnapshot, Option<Cause>), Error> {
        let cache = &self.settings_cache;
        let cache_read = cache.begin(self.clock.read());
        if cache.read().is_closed {
            return Err(StoreError::Unavailable(None).into());
        }
        // The heartbeat comes before the read. A node that changed settings, saw no heartbeat and
        // so did not wait for this node had committed by then. So the read finds the change.
        self.confirm(cache_read.cached_version.unwrap_or(0)).await?;
        let version = self.store.settings_version().await?;
        if cache_read.cached_version == Some(version) {
            let mut state = cache.write();
            state.note_read(&cache_read);
            return Ok((state.snapshot.clone(), None));
        }
        let before = cache.read().snapshot.types.clone();
        let types = Arc::new(DeclaredTypes::of(self.store.policies().await?, &before));
        let (credentials, damage_cause) = match self.read_credentials().await {
            Ok(credentials) => (Some(Arc::new(credentials)), None),
            Err(StoreError::Damaged(cause)) => (None, cause),
            Err(error) => return Err(error.into()),
        };
        let snapshot = SettingsSnapshot { credentials, types };
        let kept = cache.keep(&cache_read, version, snapshot.clone());
        // The version of the snapshot, which is not always the version of this read.
        self.confirm(kept).await?;
        Ok((snapshot, damage_cause))
    }

    async fn read_credentials(&self) -> Result<Credentials, StoreError> {
        Ok(Credentials::new(self.store.keys(None).await?, self.store.signing_keys().await?))
    }

    async fn confirm(&self, version: u64) -> Result<(), Error> {
        if let Some(node) = self.settings_cache.member.get() {
            self.store.confirm_settings(&node.info(), version).await?;
        }
        Ok(())
    }

    /// Reads local changes again, and notifies other nodes. The change itself is committed whatever
    /// happens here: if the store does not answer, the next request reads before it is served.
    pub(crate) async fn apply_settings(&self) {
        self.writes.notify_peers(Notification { settings: true, ..Notification::default() });
        if let Err(error) = self.refresh_settings().await {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(error, "changed settings cannot be read yet");
        }
    }

    /// The nodes that have not confirmed the version of this node's settings.
    pub async fn unconfirmed_nodes(&self) -> Result<Vec<UnconfirmedNode>, Error> {
        if !self.settings_cache.read().has_read_since_change() {
            self.refresh_settings().await?;
        }
        let version = self.settings_cache.read().version;
        Ok(self.store.unconfirmed_nodes(version).await?)
    }

    /// Confirms all future changes: a node that serves nothing any more must not delay them.
    pub(crate) async fn leave_settings(&self) -> Result<(), Error> {
        self.settings_cache.write().is_closed = true;
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

    fn signing(number: u128) -> SettingsSnapshot {
        let secret = [Entropy(number), Entropy(number)];
        let key = SigningKey::new(Entropy(number << 64), secret, Timestamp::default());
        let credentials = Some(Arc::new(Credentials::new(Vec::new(), vec![key])));
        SettingsSnapshot { credentials, ..SettingsSnapshot::default() }
    }

    fn signing_keys(snapshot: &SettingsSnapshot) -> &[SigningKey] {
        &snapshot.credentials.as_ref().unwrap().signing_keys
    }

    #[test]
    fn an_older_read_does_not_overwrite_a_newer_one() {
        let cache = SettingsCache::default();
        let (slow, quick) = (cache.begin(at(1)), cache.begin(at(2)));
        cache.keep(&quick, 7, signing(2));
        cache.keep(&slow, 6, signing(1));
        let state = cache.read();
        assert_eq!(state.version, 7);
        assert_eq!(signing_keys(&state.snapshot), signing_keys(&signing(2)));
    }

    /// Reads overlap: the one that began first may have read the count last.
    #[test]
    fn overlapping_reads_keep_and_confirm_the_newest_version() {
        let cache = SettingsCache::default();
        let (first, second) = (cache.begin(at(1)), cache.begin(at(2)));
        assert_eq!(cache.keep(&second, 7, signing(7)), 7);
        assert_eq!(cache.keep(&first, 8, signing(8)), 8, "it began first and has seen more");
        let (first, second) = (cache.begin(at(3)), cache.begin(at(4)));
        assert_eq!(cache.keep(&first, 10, signing(10)), 10);
        assert_eq!(cache.keep(&second, 9, signing(9)), 10, "it began last and has seen less");
        assert_eq!(signing_keys(&cache.read().snapshot), signing_keys(&signing(10)));
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
    fn a_read_begun_before_a_local_change_is_not_current() {
        let cache = SettingsCache::default();
        let early = cache.begin(at(1));
        drop(cache.begin_change());
        cache.keep(&early, 1, signing(1));
        assert!(!cache.read().is_current(false, || at(1)));
        let late = cache.begin(at(2));
        assert_eq!(late.cached_version, None, "it reads everything again, whatever the version");
        cache.keep(&late, 1, signing(2));
        assert!(cache.read().is_current(false, || at(1_000)), "no other node can set anything");
        assert_eq!(cache.begin(at(3)).cached_version, Some(1));
    }

    #[test]
    fn memory_is_trusted_for_less_time_than_a_sign_of_life_lasts_by_either_clock() {
        assert!(SETTINGS_TRUSTED_FOR < store::NODE_LOST_AFTER);
        let cache = SettingsCache::default();
        let cache_read = cache.begin(at(10));
        cache.keep(&cache_read, 1, signing(1));
        let is_current = |now| cache.read().is_current(true, || now);
        assert!(is_current(at(17)) && !is_current(at(18)));
        assert!(!is_current(Reading { monotonic: Duration::from_secs(11), ..at(60) }), "suspended");
        assert!(!is_current(Reading { monotonic: Duration::from_secs(60), ..at(11) }), "set back");
        let cache_read = cache.begin(at(12));
        cache.write().note_read(&cache_read);
        assert!(is_current(at(19)) && !is_current(at(20)));
        cache.write().is_closed = true;
        assert!(!is_current(at(12)));
    }
}
