//! Who does something, and what the audit log remembers of it.
//!
//! A verb that takes an `actor` is noted in the audit log in the transaction that carries it out.
//! What is refused leaves no entry.
//!
//! What a setting was before is read right before that transaction, not in it: stores would have to
//! load settings for an entry. Two callers that set one thing in the same moment may both tell what
//! was before the first; the order of their entries is still the order in which they hold.

use crate::{Error, Platform, request::TypedRequest};
use engine::{AuditEntry, AuditNote, CorrelationId, Principal, Scope};
use std::sync::Arc;
use store::Request;

/// Who does something, and how it can be found again.
#[derive(Clone, Debug)]
pub struct Actor {
    /// What the audit log calls them: `key:…`, `jwt:…`, `config`.
    pub who: Arc<str>,
    /// Whose audit log the entry belongs to: who may read it.
    pub scope: Scope,
    /// What to search the logs for.
    pub correlation: CorrelationId,
}

impl Actor {
    /// A principal that was authenticated, and acts within its own scope.
    pub fn new(by: &Principal, correlation: CorrelationId) -> Self {
        Actor { who: by.who.clone(), scope: by.grant.scope.clone(), correlation }
    }

    /// The same, where the entry belongs to `scope`.
    pub fn within(self, scope: Scope) -> Self {
        Actor { scope, ..self }
    }

    pub(crate) fn note(
        &self,
        action: &'static str,
        target: &str,
        detail: Option<Arc<str>>,
    ) -> AuditNote {
        AuditNote {
            who: self.who.clone(),
            scope: self.scope.clone(),
            action,
            target: target.into(),
            detail,
            correlation: self.correlation.clone(),
        }
    }
}

impl Platform {
    /// Notes something that was done elsewhere, or to many jobs at once.
    pub async fn record_action(
        &self,
        actor: &Actor,
        action: &'static str,
        target: &str,
        detail: Option<&str>,
    ) -> Result<(), Error> {
        let note = actor.note(action, target, detail.map(Into::into));
        self.execute_one(TypedRequest::done(Request::Audit(note))).await
    }

    /// A page of the audit log, newest first: entries with a number below `before`.
    pub async fn audit(
        &self,
        scope: &Scope,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<AuditEntry>, Error> {
        Ok(self.store.audit(scope, before, limit).await?)
    }
}
