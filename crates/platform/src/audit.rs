//! Actors, and the audit log entries of what they do.
//!
//! The store notes a verb with an `actor` in the audit log, in the transaction that executes the
//! verb. A refused verb leaves no entry.
//!
//! The verb reads the previous value of a setting just before that transaction, not inside it:
//! otherwise stores would have to load settings for an entry. Two callers that set the same thing
//! at the same moment may therefore both record the value before the first. The order of their
//! entries is still the order in which their changes apply.

use crate::{Error, Platform, request::TypedRequest};
use engine::{AuditNote, CorrelationId, KeyName, Principal, Scope};
use std::sync::Arc;
use store::Request;

/// Who acts, and how to find the action again.
#[derive(Clone, Debug)]
pub struct Actor {
    /// The actor's name in the audit log: `key:…`, `jwt:…`, `config`.
    pub who: Arc<str>,
    /// What the owner called the actor's key.
    pub name: Option<KeyName>,
    /// The scope whose audit log the entry belongs to, and so who may read it.
    pub scope: Scope,
    /// The correlation id to search the logs for.
    pub correlation: CorrelationId,
}

impl Actor {
    /// An authenticated principal that acts within its own scope.
    pub fn new(by: &Principal, correlation: CorrelationId) -> Self {
        let (who, name) = (by.who.clone(), by.name.clone());
        Actor { who, name, scope: by.grant.scope.clone(), correlation }
    }

    /// The same actor, where the entry belongs to `scope`.
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
            name: self.name.clone(),
            scope: self.scope.clone(),
            action,
            target: target.into(),
            detail,
            correlation: self.correlation.clone(),
        }
    }
}

impl Platform {
    /// Notes an action that happened elsewhere, or that touched many jobs at once.
    pub async fn record_action(
        &self,
        actor: &Actor,
        action: &'static str,
        target: &str,
        detail: Option<&str>,
    ) -> Result<(), Error> {
        let note = actor.note(action, target, detail.map(Into::into));
        self.execute_one(TypedRequest::without_answer(Request::Audit(note))).await
    }
}
