//! Make keys and end them: those that open doors, and those that sign status addresses.
//!
//! Whether somebody may is asked at the door. What they did is noted with it.

use crate::{Author, Error, Platform};
use engine::{
    ApiKey, CorrelationId, KeyDraft, KeyId, KeySecret, Principal, Refusal, Right, Scope, SigningKey,
};
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
        let secret = KeySecret::new(self.dice.roll(), [self.dice.roll(), self.dice.roll()]);
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
        self.put_key(by, correlation, "key.create", &key).await?;
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
        self.put_key(by, correlation, "key.revoke", &key).await?;
        Ok(key)
    }

    /// The entry belongs to whom the key does: they should know who made it.
    async fn put_key(
        &self,
        by: &Principal,
        correlation: CorrelationId,
        action: &'static str,
        key: &ApiKey,
    ) -> Result<(), Error> {
        let author = Author { scope: key.grant.scope.clone(), ..Author::new(by, correlation) };
        let rights: Vec<&str> = key.grant.rights.iter().map(Right::as_str).collect();
        let detail = format!("{}: {}", key.name.as_str(), rights.join(" "));
        let note = author.note(action, &key.id.to_string(), Some(&detail));
        let request = Some(Box::new(Request::PutKey(key.clone())));
        self.execute_one(Request::Record { note, request }).await.map(drop)
    }

    /// The API keys in scope, oldest first, good or not.
    pub async fn keys(&self, scope: &Scope) -> Result<Vec<ApiKey>, Error> {
        let mut keys = self.store.keys().await?;
        keys.retain(|key| *scope == Scope::All || *scope == key.grant.scope);
        Ok(keys)
    }

    /// Makes a key that signs status addresses. Nobody asked for it by name, so nobody is noted.
    pub async fn new_signing_key(&self) -> Result<SigningKey, Error> {
        let (id, secret) = (self.dice.roll(), [self.dice.roll(), self.dice.roll()]);
        let key = SigningKey::new(id, secret, self.clock.read().wall);
        self.execute_one(Request::PutSigningKey(key.clone())).await?;
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
        let author = Author { scope: Scope::All, ..Author::new(by, correlation) };
        let note = author.note("signing_key.revoke", &id.to_string(), None);
        let request = Some(Box::new(Request::PutSigningKey(key.clone())));
        self.execute_one(Request::Record { note, request }).await?;
        Ok(key)
    }

    /// The keys that sign status addresses, oldest first, revoked ones included.
    pub async fn signing_keys(&self) -> Result<Vec<SigningKey>, Error> {
        Ok(self.store.signing_keys().await?)
    }
}
