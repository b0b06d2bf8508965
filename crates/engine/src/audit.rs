//! The audit log: management actions, in a hash chain.

use crate::{
    key::{hex, unhex},
    text::{CorrelationId, KeyName, Scope},
    time::Timestamp,
};
use sha2::{Digest, Sha256};
use std::{fmt, sync::Arc};

/// A management action, as the audit log records it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditNote {
    /// The principal that acted: `key:…`, `jwt:…`, `config`.
    pub who: Arc<str>,
    /// What the owner called the principal's key; none for other principals.
    pub name: Option<KeyName>,
    /// The tenants concerned. It decides who may read the entry.
    pub scope: Scope,
    /// The action: `job.redrive`, `queue.pause`, `key.create`.
    pub action: &'static str,
    /// The target: an id, a type, a filter.
    pub target: Arc<str>,
    /// Further details, without payloads and secrets.
    pub detail: Option<Arc<str>>,
    /// The correlation id under which the logs have the request.
    pub correlation: CorrelationId,
}

/// One entry of the audit log: a note, numbered from 1 without gaps, and dated by the store's
/// clock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of AuditNote")]
pub struct AuditEntry {
    pub number: u64,
    pub at: Timestamp,
    pub who: Arc<str>,
    pub scope: Scope,
    pub action: Arc<str>,
    pub target: Arc<str>,
    pub detail: Option<Arc<str>>,
    pub correlation: CorrelationId,
    pub name: Option<KeyName>,
    /// The digest of all other fields and of the previous entry's hash.
    pub hash: AuditHash,
}

/// The hash of an entry. It covers the previous hash, so that a changed entry breaks all later
/// ones.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct AuditHash(pub [u8; 32]);

impl AuditHash {
    /// The hash before the first entry.
    pub const FIRST: AuditHash = AuditHash([0; 32]);

    /// Reads the form that is shown.
    pub fn parse(text: &str) -> Option<Self> {
        unhex(text).map(AuditHash)
    }
}

impl fmt::Display for AuditHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for AuditHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl AuditEntry {
    /// The entry after the one numbered `number - 1`, whose hash is `before`.
    pub fn new(number: u64, at: Timestamp, note: AuditNote, before: AuditHash) -> Self {
        let AuditNote { who, name, scope, action, target, detail, correlation } = note;
        let (action, hash) = (action.into(), AuditHash::FIRST);
        let entry =
            AuditEntry { number, at, who, scope, action, target, detail, correlation, name, hash };
        AuditEntry { hash: entry.digest(before), ..entry }
    }

    /// Whether the entry is unchanged, and follows an entry with the hash `before`.
    pub fn follows(&self, before: AuditHash) -> bool {
        self.hash == self.digest(before)
    }

    fn digest(&self, before: AuditHash) -> AuditHash {
        let mut hash = Sha256::new();
        hash.update(before.0);
        hash.update(self.number.to_be_bytes());
        hash.update(self.at.unix_ms().to_be_bytes());
        let detail = self.detail.as_deref();
        let present = [u8::from(detail.is_some())];
        hash.update(present);
        let texts = [
            &*self.who,
            self.scope.as_str(),
            &self.action,
            &self.target,
            detail.unwrap_or_default(),
            self.correlation.as_str(),
        ];
        // Last, and not there at all where there is no name: entries from before there were names
        // have the digest that they always had.
        for text in texts.into_iter().chain(self.name.as_ref().map(KeyName::as_str)) {
            // Length first, so that no text can continue into the next.
            hash.update((text.len() as u64).to_be_bytes());
            hash.update(text);
        }
        AuditHash(hash.finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(target: &str, detail: Option<&str>) -> AuditNote {
        AuditNote {
            who: "key:1".into(),
            name: None,
            scope: Scope::All,
            action: "queue.pause",
            target: target.into(),
            detail: detail.map(Into::into),
            correlation: CorrelationId::parse("c").unwrap(),
        }
    }

    #[test]
    fn an_audit_entry_follows_only_its_predecessor() {
        let at = Timestamp::from_unix_ms(7);
        let first = AuditEntry::new(1, at, note("email", None), AuditHash::FIRST);
        let second = AuditEntry::new(2, at, note("sms", Some("x")), first.hash);
        assert!(first.follows(AuditHash::FIRST) && second.follows(first.hash));
        assert!(!second.follows(AuditHash::FIRST));
        assert_eq!(AuditHash::parse(&second.hash.to_string()), Some(second.hash));
    }

    #[test]
    fn every_change_is_seen() {
        let at = Timestamp::from_unix_ms(7);
        let entry = AuditEntry::new(2, at, note("email", Some("")), AuditHash::FIRST);
        let other = CorrelationId::parse("d").unwrap();
        let changes = [
            AuditEntry { number: 3, ..entry.clone() },
            AuditEntry { at: Timestamp::from_unix_ms(8), ..entry.clone() },
            AuditEntry { who: "key:2".into(), ..entry.clone() },
            AuditEntry { scope: Scope::One(crate::Tenant::default_tenant()), ..entry.clone() },
            AuditEntry { action: "queue.resume".into(), ..entry.clone() },
            AuditEntry { target: "emai".into(), ..entry.clone() },
            AuditEntry { detail: None, ..entry.clone() },
            AuditEntry { detail: Some("l".into()), ..entry.clone() },
            AuditEntry { correlation: other, ..entry.clone() },
            AuditEntry { name: KeyName::parse("ops").ok(), ..entry.clone() },
        ];
        assert!(entry.follows(AuditHash::FIRST));
        for change in changes {
            assert!(!change.follows(AuditHash::FIRST), "{change:?}");
        }
    }
}
