//! Create, rotate and revoke API keys, and the keys that sign status URLs.
//!
//! The HTTP API checks whether the caller may do so. Each action is noted in the audit log in its
//! transaction.

use crate::{Actor, Error, Platform, request::TypedRequest};
use engine::{
    ApiKey, CorrelationId, KeyDraft, KeyId, KeySecret, Principal, Refusal, Rotation, Scope,
    SigningKey, Timestamp,
};
use std::{sync::Arc, time::Duration};
use store::{RecordChange, RecordKind, Request, StoreError};

/// How often a rotation begins again because another caller changed the key.
const ROTATE_ATTEMPTS_MAX: usize = 8;

impl Platform {
    /// Creates an API key. The secret is returned once: the store keeps only its digest.
    pub async fn create_key(
        &self,
        by: &Principal,
        correlation: CorrelationId,
        draft: KeyDraft,
    ) -> Result<(ApiKey, KeySecret), Error> {
        let (key, secret) = self.new_key(by, draft, self.clock.read().wall);
        let detail = engine::key_grant(&key);
        self.put_key(Actor::new(by, correlation), ("key.create", detail), &key).await?;
        Ok((key, secret))
    }

    fn new_key(&self, by: &Principal, draft: KeyDraft, now: Timestamp) -> (ApiKey, KeySecret) {
        let KeyDraft { name, grant, expires_at } = draft;
        let secret =
            KeySecret::new(self.random.entropy(), [self.random.entropy(), self.random.entropy()]);
        let key = ApiKey {
            id: secret.id(),
            name,
            digest: secret.digest(),
            grant,
            created_at: now,
            created_by: by.who.clone(),
            expires_at,
            revoked_at: None,
            rotated_at: None,
        };
        (key, secret)
    }

    /// Replaces an API key by another with the same grant; the old one ends after `grace`. `may`
    /// decides whether the caller may manage the key.
    pub async fn rotate_key<R: From<Error>>(
        &self,
        by: &Principal,
        correlation: &CorrelationId,
        (id, grace): (KeyId, Duration),
        may: impl Fn(&ApiKey) -> Result<(), R>,
    ) -> Result<(ApiKey, KeySecret), R> {
        for _ in 0..ROTATE_ATTEMPTS_MAX {
            let (version, before) = self.key_with_version(&by.grant.scope, id).await?;
            may(&before)?;
            let now = self.clock.read().wall;
            let rotation = Rotation::of(&before, by, grace, now).map_err(Error::from)?;
            let (key, secret) = self.new_key(by, rotation.new, now);
            let actor = Actor::new(by, correlation.clone()).within(key.grant.scope.clone());
            let rotated = engine::key_rotation(&before, &rotation.old, key.id);
            let created = engine::key_grant(&key);
            // Another caller may revoke the old key at this moment, and must not be undone.
            let end_old =
                RecordChange::put(rotation.old.grant.scope.clone(), id.to_string(), &rotation.old);
            let end_old = Request::PutRecord(end_old.expecting(version));
            let requests = vec![
                end_old.audited(actor.note("key.rotate", &id.to_string(), Some(rotated))),
                Request::put_key(&key).audited(actor.note(
                    "key.create",
                    &key.id.to_string(),
                    Some(created),
                )),
            ];
            let request = TypedRequest::without_answer(Request::All(requests));
            match self.change_setting(request).await {
                Err(Error::Refused(Refusal::VersionChanged { .. })) => {}
                result => {
                    result?;
                    return Ok((key, secret));
                }
            }
        }
        Err(Error::Store(StoreError::Unavailable(None)).into())
    }

    async fn key_with_version(&self, scope: &Scope, id: KeyId) -> Result<(u64, ApiKey), Error> {
        let scope_filter = (*scope != Scope::All).then_some(scope);
        let records = self.store.records(RecordKind::ApiKey, scope_filter, &id.to_string()).await?;
        let record = records.first().ok_or(Refusal::KeyNotFound)?;
        let key = record.read().ok_or(StoreError::Damaged(None))?;
        Ok((record.version, key))
    }

    /// Revokes an API key for good. A key that is revoked already stays as it is.
    pub async fn revoke_key(
        &self,
        by: &Principal,
        correlation: CorrelationId,
        scope: &Scope,
        id: KeyId,
    ) -> Result<ApiKey, Error> {
        let mut keys = self.keys(scope).await?.into_iter();
        let key = keys.find(|key| key.id == id).ok_or(Refusal::KeyNotFound)?;
        if key.revoked_at.is_some() {
            return Ok(key);
        }
        let key = ApiKey { revoked_at: Some(self.clock.read().wall), ..key };
        let detail = engine::key_revocation(&key);
        self.put_key(Actor::new(by, correlation), ("key.revoke", detail), &key).await?;
        Ok(key)
    }

    /// Revokes every valid key that was made with the key `id`, directly or through other keys,
    /// each with an audit entry of its own. Returns whether there was one. `may` decides which keys
    /// the caller may revoke; its first refusal ends the call.
    ///
    /// Revoke `id` before. Call this again until it finds none, because each key may have made
    /// others meanwhile. Between two calls, wait until the revocations are in force at every node.
    pub async fn revoke_descendants<R: From<Error>>(
        &self,
        by: &Principal,
        correlation: &CorrelationId,
        id: KeyId,
        may: impl Fn(&ApiKey) -> Result<(), R>,
    ) -> Result<bool, R> {
        let keys = self.keys(&Scope::All).await?;
        let descendants = engine::descendants(&keys, id).into_iter();
        let valid_keys: Vec<&ApiKey> = descendants.filter(|key| key.revoked_at.is_none()).collect();
        for key in &valid_keys {
            may(key)?;
            let scope = &key.grant.scope;
            self.revoke_key(by, correlation.clone(), scope, key.id).await?;
        }
        Ok(!valid_keys.is_empty())
    }

    /// The audit entry belongs to the scope of the key: its owner should see who made it.
    async fn put_key(
        &self,
        actor: Actor,
        (action, detail): (&'static str, Arc<str>),
        key: &ApiKey,
    ) -> Result<(), Error> {
        let actor = actor.within(key.grant.scope.clone());
        let request = TypedRequest::without_answer(Request::put_key(key));
        self.change_setting(request.audited(Some(&actor), action, key.id, Some(detail))).await
    }

    /// The API keys in scope, oldest first, revoked ones included.
    pub async fn keys(&self, scope: &Scope) -> Result<Vec<ApiKey>, Error> {
        let scope_filter = (*scope != Scope::All).then_some(scope);
        Ok(self.store.keys(scope_filter).await?)
    }

    /// Creates a key that signs status URLs. The server makes it by itself, so there is no audit
    /// entry.
    pub async fn new_signing_key(&self) -> Result<SigningKey, Error> {
        let (id, secret) = (self.random.entropy(), [self.random.entropy(), self.random.entropy()]);
        let key = SigningKey::new(id, secret, self.clock.read().wall);
        self.change_setting(TypedRequest::without_answer(Request::put_signing_key(&key))).await?;
        Ok(key)
    }

    /// Revokes a signing key: no URL that it signed is valid any more. A key that is revoked
    /// already stays as it is.
    pub async fn revoke_signing_key(
        &self,
        by: &Principal,
        correlation: CorrelationId,
        id: KeyId,
    ) -> Result<SigningKey, Error> {
        let mut keys = self.signing_keys().await?.into_iter();
        let key = keys.find(|key| key.id == id).ok_or(Refusal::KeyNotFound)?;
        if key.revoked_at.is_some() {
            return Ok(key);
        }
        let key = SigningKey { revoked_at: Some(self.clock.read().wall), ..key };
        // The revocation ends signed URLs of all tenants.
        let actor = Actor::new(by, correlation).within(Scope::All);
        let detail = Some(engine::signing_key_revocation(key.revoked_at));
        let request = TypedRequest::without_answer(Request::put_signing_key(&key));
        self.change_setting(request.audited(Some(&actor), "signing_key.revoke", id, detail))
            .await?;
        Ok(key)
    }

    /// The keys that sign status URLs, oldest first, revoked ones included.
    pub async fn signing_keys(&self) -> Result<Vec<SigningKey>, Error> {
        Ok(self.store.signing_keys().await?)
    }
}
