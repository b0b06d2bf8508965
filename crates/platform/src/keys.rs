//! Create and revoke API keys, and the keys that sign status URLs.
//!
//! The HTTP API checks whether the caller may do so. Each action is noted in the audit log in its
//! transaction.

use crate::{Actor, Error, Platform, request::TypedRequest};
use engine::{
    ApiKey, CorrelationId, KeyDraft, KeyId, KeySecret, Principal, Refusal, Scope, SigningKey,
};
use std::sync::Arc;
use store::Request;

impl Platform {
    /// Creates an API key. The secret is returned once: the store keeps only its digest.
    pub async fn create_key(
        &self,
        by: &Principal,
        correlation: CorrelationId,
        draft: KeyDraft,
    ) -> Result<(ApiKey, KeySecret), Error> {
        let KeyDraft { name, grant, expires_at } = draft;
        let secret =
            KeySecret::new(self.random.entropy(), [self.random.entropy(), self.random.entropy()]);
        let key = ApiKey {
            id: secret.id(),
            name,
            digest: secret.digest(),
            grant,
            created_at: self.clock.read().wall,
            created_by: by.who.clone(),
            expires_at,
            revoked_at: None,
        };
        let detail = engine::key_grant(&key);
        self.put_key(Actor::new(by, correlation), ("key.create", detail), &key).await?;
        Ok((key, secret))
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
