//! The key from which the secrets of pushed jobs are derived: one for all nodes of a store.

use crate::{Error, Platform, request::TypedRequest};
use engine::{Refusal, Scope, WebhookKey};
use store::{RecordChange, Request, StoreError, WEBHOOK_KEY};

impl Platform {
    /// The key of the store; `None` before the first node has made it.
    pub async fn webhook_key(&self) -> Result<Option<WebhookKey>, Error> {
        Ok(self.record(&Scope::All, WEBHOOK_KEY).await?.1)
    }

    /// Stores `candidate` where the store has no key yet, and returns the key of the store: of
    /// nodes that do this at once, one wins and all get its key. The server makes the key by
    /// itself, so there is no audit entry.
    pub async fn ensure_webhook_key(&self, candidate: WebhookKey) -> Result<WebhookKey, Error> {
        let first = RecordChange::put(Scope::All, WEBHOOK_KEY, &candidate).expecting(0);
        let put = TypedRequest::without_answer(Request::PutRecord(first));
        match self.execute_one(put).await {
            Ok(()) => Ok(candidate),
            Err(Error::Refused(Refusal::VersionChanged { .. })) => {
                let stored = self.webhook_key().await?;
                stored.ok_or(Error::Store(StoreError::Unavailable(None)))
            }
            Err(error) => Err(error),
        }
    }
}
