//! When API keys were last used.
//!
//! A request only notes the minute in memory, and at most once a minute for each key. The
//! maintenance thread writes what was noted, all keys in one transaction. So a use costs no write
//! of its own, and what a crash loses is a second.

use crate::{CachedKey, Error, Platform, request::TypedRequest};
use engine::{KeyId, KeyUse, Refusal, Scope, Timestamp};
use std::{
    collections::BTreeMap,
    mem,
    sync::{Mutex, MutexGuard},
};
use store::{RecordBody, RecordChange, RecordKind, RecordName, Request, StoreError};

/// The uses that the store does not know yet.
#[derive(Default)]
pub(crate) struct UnstoredUses(Mutex<BTreeMap<KeyId, KeyUse>>);

/// The last use of each key with the version of its record.
type StoredUses = BTreeMap<KeyId, (u64, KeyUse)>;

impl UnstoredUses {
    fn note(&self, id: KeyId, key_use: KeyUse) {
        let mut uses = self.uses();
        let latest = uses.entry(id).or_insert(key_use);
        *latest = key_use.max(*latest);
    }

    fn uses(&self) -> MutexGuard<'_, BTreeMap<KeyId, KeyUse>> {
        self.0.lock().expect("no code panics while it holds the uses of keys")
    }
}

impl Platform {
    /// Notes that a caller used this key.
    pub fn note_key_use(&self, key: &CachedKey, now: Timestamp) {
        let key_use = KeyUse::at(now);
        if key.is_first_of(key_use) {
            self.unstored_uses.note(key.key.id, key_use);
        }
    }

    /// The last use of each key that was ever used, on any node.
    pub async fn key_uses(&self) -> Result<BTreeMap<KeyId, KeyUse>, Error> {
        let stored = self.stored_uses().await?.into_iter();
        let mut uses: BTreeMap<KeyId, KeyUse> =
            stored.map(|(id, (_, key_use))| (id, key_use)).collect();
        for (id, unstored) in self.unstored_uses.uses().iter() {
            let latest = uses.entry(*id).or_insert(*unstored);
            *latest = (*unstored).max(*latest);
        }
        Ok(uses)
    }

    /// Writes the uses that were noted since the last call. The newest wins, whichever node saw it:
    /// a record that another node wrote meanwhile is looked at again with the next call.
    pub(crate) async fn store_key_uses(&self) -> Result<(), Error> {
        let unstored = mem::take(&mut *self.unstored_uses.uses());
        if unstored.is_empty() {
            return Ok(());
        }
        let result = self.store_uses(&unstored).await;
        let outdated = match &result {
            Ok(outdated) => outdated.clone(),
            Err(_) => unstored.keys().copied().collect(),
        };
        outdated.into_iter().for_each(|id| self.unstored_uses.note(id, unstored[&id]));
        result.map(drop)
    }

    /// Returns the keys whose record another node has changed meanwhile.
    async fn store_uses(&self, unstored: &BTreeMap<KeyId, KeyUse>) -> Result<Vec<KeyId>, Error> {
        let stored = self.stored_uses().await?;
        let newer = unstored.iter().filter_map(|(id, key_use)| {
            let (version, before) = match stored.get(id) {
                Some((version, before)) => (*version, Some(before)),
                None => (0, None),
            };
            before.is_none_or(|before| before < key_use).then_some((*id, version, key_use))
        });
        let newer: Vec<(KeyId, u64, &KeyUse)> = newer.collect();
        let put = newer.iter().map(|(id, version, key_use)| {
            let change = RecordChange::put(Scope::All, id.to_string(), *key_use);
            TypedRequest::without_answer(Request::PutRecord(change.expecting(*version)))
        });
        let removed = self.uses_without_key(&stored);
        let requests = put.chain(removed).collect();
        let mut outdated = Vec::new();
        for ((id, ..), result) in newer.iter().zip(self.execute_all(requests).await?) {
            match result {
                Err(Refusal::VersionChanged { .. }) => outdated.push(*id),
                result => result?,
            }
        }
        Ok(outdated)
    }

    /// Removes the uses of keys that the store has removed.
    fn uses_without_key(
        &self,
        stored: &StoredUses,
    ) -> impl Iterator<Item = TypedRequest<()>> + use<> {
        let credentials = self.credentials();
        let is_gone = |id: &KeyId| credentials.as_ref().is_some_and(|all| all.key(*id).is_none());
        let gone = stored.iter().filter(|(id, _)| is_gone(id));
        let removed = gone.map(|(id, (version, _))| {
            let (kind, key) = (KeyUse::RECORD, id.to_string().into());
            let name = RecordName { kind, scope: Scope::All, key };
            Request::PutRecord(RecordChange::remove(name).expecting(*version))
        });
        let removed: Vec<Request> = removed.collect();
        removed.into_iter().map(TypedRequest::without_answer)
    }

    async fn stored_uses(&self) -> Result<StoredUses, Error> {
        let records = self.store.records(RecordKind::KeyUse, None, "").await?;
        let uses = records.iter().map(|record| {
            Some((KeyId::parse(&record.name.key).ok()?, (record.version, record.read()?)))
        });
        Ok(uses.collect::<Option<_>>().ok_or(StoreError::Damaged(None))?)
    }
}
