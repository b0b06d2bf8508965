//! Make keys and end them: those that open doors, and those that sign status addresses.
//!
//! Whether somebody may is asked at the door. What they did is noted with it.

use crate::{Actor, Error, Platform, request::TypedRequest};
use engine::{
    ApiKey, CorrelationId, KeyDraft, KeyId, KeySecret, Principal, Refusal, Scope, SigningKey,
};
use std::sync::Arc;
use store::Request;

impl Platform {
    /// Makes an API key. The secret is shown once: only its digest is kept.
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

    /// Ends an API key for good. One that was revoked before stays as it is.
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

    /// Ends every good key that was made with the key `id`, by itself or through others, each with
    /// an entry of its own, and tells whether there was one. `may` says which of them the caller
    /// may end; the first that it may not ends this with that refusal.
    ///
    /// `id` is to be revoked before, and keys that were ended here are to be in force at every node
    /// before this is called again: it is to be called until it finds none, because each may have
    /// made others until then.
    pub async fn revoke_descendants<R: From<Error>>(
        &self,
        by: &Principal,
        correlation: &CorrelationId,
        id: KeyId,
        may: impl Fn(&ApiKey) -> Result<(), R>,
    ) -> Result<bool, R> {
        let keys = self.keys(&Scope::All).await?;
        let made = engine::descendants(&keys, id).into_iter();
        let good: Vec<&ApiKey> = made.filter(|key| key.revoked_at.is_none()).collect();
        for key in &good {
            may(key)?;
            let scope = &key.grant.scope;
            self.revoke_key(by, correlation.clone(), scope, key.id).await?;
        }
        Ok(!good.is_empty())
    }

    /// The entry belongs to whom the key does: they should know who made it.
    async fn put_key(
        &self,
        actor: Actor,
        (action, detail): (&'static str, Arc<str>),
        key: &ApiKey,
    ) -> Result<(), Error> {
        let actor = actor.within(key.grant.scope.clone());
        let request = TypedRequest::done(Request::put_key(key));
        self.set(request.audited(Some(&actor), action, key.id, Some(detail))).await
    }

    /// The API keys in scope, oldest first, good or not.
    pub async fn keys(&self, scope: &Scope) -> Result<Vec<ApiKey>, Error> {
        let of_one = (*scope != Scope::All).then_some(scope);
        Ok(self.store.keys(of_one).await?)
    }

    /// Makes a key that signs status addresses. Nobody asked for it by name, so nobody is noted.
    pub async fn new_signing_key(&self) -> Result<SigningKey, Error> {
        let (id, secret) = (self.random.entropy(), [self.random.entropy(), self.random.entropy()]);
        let key = SigningKey::new(id, secret, self.clock.read().wall);
        self.set(TypedRequest::done(Request::put_signing_key(&key))).await?;
        Ok(key)
    }

    /// Ends a signing key: nothing that it signed is valid any more. One that was revoked before stays
    /// as it is.
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
        // Everybody's addresses end with it.
        let actor = Actor::new(by, correlation).within(Scope::All);
        let detail = Some(engine::signing_key_revocation(key.revoked_at));
        let request = TypedRequest::done(Request::put_signing_key(&key));
        self.set(request.audited(Some(&actor), "signing_key.revoke", id, detail)).await?;
        Ok(key)
    }

    /// The keys that sign status addresses, oldest first, revoked ones included.
    pub async fn signing_keys(&self) -> Result<Vec<SigningKey>, Error> {
        Ok(self.store.signing_keys().await?)
    }
}
