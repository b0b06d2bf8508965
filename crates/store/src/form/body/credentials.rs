//! API keys, signing keys and the audit log.

use super::{
    Body,
    settings::{from_scope, to_scope},
};
use crate::form::{
    bytes::{In, Out},
    seal::Kind,
};
use engine::{
    ApiKey, AuditEntry, AuditHash, CorrelationId, Grant, KeyDigest, KeyId, KeyName, Pattern, Right,
    SigningKey,
};

impl Body for ApiKey {
    const KIND: Kind = Kind::ApiKey;

    fn write(&self, out: &mut Out) {
        out.number(self.id.0);
        out.text(self.name.as_str());
        out.bytes(&self.digest.0);
        write_grant(&self.grant, out);
        out.time(self.created_at);
        out.text(&self.created_by);
        out.maybe(self.expires_at, Out::time);
        out.maybe(self.revoked_at, Out::time);
    }

    fn read(from: &mut In<'_>) -> Option<Self> {
        Some(ApiKey {
            id: KeyId(from.number()?),
            name: KeyName::parse(from.text()?).ok()?,
            digest: KeyDigest(from.array()?),
            grant: read_grant(from)?,
            created_at: from.time()?,
            created_by: from.text()?.into(),
            expires_at: from.maybe(In::time)?,
            revoked_at: from.maybe(In::time)?,
        })
    }
}

/// Rights by their names: a number would mean another one as soon as somebody sorts them.
fn write_grant(grant: &Grant, out: &mut Out) {
    out.text(to_scope(&grant.scope));
    out.number(grant.rights.iter().count() as u64);
    grant.rights.iter().for_each(|right| out.text(right.as_str()));
    for patterns in [&grant.types, &grant.subjects] {
        out.number(patterns.len() as u64);
        patterns.iter().for_each(|pattern| out.text(pattern.as_str()));
    }
}

fn read_grant(from: &mut In<'_>) -> Option<Grant> {
    let right = |from: &mut In<'_>| Right::parse(from.text()?).ok();
    Some(Grant {
        scope: from_scope(from.text()?)?,
        rights: list(from, right)?.into_iter().collect(),
        types: list(from, |from| Pattern::parse("types", from.text()?).ok())?,
        subjects: list(from, |from| Pattern::parse("subjects", from.text()?).ok())?,
    })
}

fn list<T>(from: &mut In<'_>, read: impl Fn(&mut In<'_>) -> Option<T>) -> Option<Vec<T>> {
    let count = from.number()?;
    (0..count).map(|_| read(from)).collect()
}

impl Body for SigningKey {
    const KIND: Kind = Kind::SigningKey;

    fn write(&self, out: &mut Out) {
        out.number(self.id.0);
        out.bytes(&self.secret);
        out.time(self.created_at);
        out.maybe(self.revoked_at, Out::time);
    }

    fn read(from: &mut In<'_>) -> Option<Self> {
        Some(SigningKey {
            id: KeyId(from.number()?),
            secret: from.array()?,
            created_at: from.time()?,
            revoked_at: from.maybe(In::time)?,
        })
    }
}

impl Body for AuditEntry {
    const KIND: Kind = Kind::Audit;

    fn write(&self, out: &mut Out) {
        out.number(self.number);
        out.time(self.at);
        out.text(&self.who);
        out.text(to_scope(&self.scope));
        out.text(&self.action);
        out.text(&self.target);
        out.maybe(self.detail.as_deref(), Out::text);
        out.text(self.correlation.as_str());
        out.bytes(&self.hash.0);
    }

    fn read(from: &mut In<'_>) -> Option<Self> {
        Some(AuditEntry {
            number: from.number()?,
            at: from.time()?,
            who: from.text()?.into(),
            scope: from_scope(from.text()?)?,
            action: from.text()?.into(),
            target: from.text()?.into(),
            detail: from.maybe(|from| Some(from.text()?.into()))?,
            correlation: CorrelationId::parse(from.text()?).ok()?,
            hash: AuditHash(from.array()?),
        })
    }
}
