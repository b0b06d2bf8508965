//! The audit log, whose end is held by whoever adds to it, and the keys of the door.

use super::{
    error::Trouble,
    pool::{Lent, Param},
    save::column,
    sql,
};
use crate::{
    form::body::{Body, from_row, to_row, to_scope},
    store::PAGE_MAX,
};
use engine::{
    ApiKey, AuditEntry, AuditHash, AuditNote, KeyId, Refusal, Scope, SigningKey, TenantLimits,
    Timestamp,
};
use tokio_postgres::{Row, types::Type};

/// Adds entries. The end of the chain is locked since the transaction began.
pub(super) async fn note(db: &Lent, notes: &[&AuditNote], now: Timestamp) -> Result<(), Trouble> {
    if notes.is_empty() {
        return Ok(());
    }
    let head = db.rows(sql::AUDIT_HEAD, &[]).await?;
    let head = head.first().map(entry).transpose()?;
    let (mut number, mut before) =
        head.map_or((0, AuditHash::FIRST), |last| (last.number, last.hash));
    let mut entries = Vec::with_capacity(notes.len());
    for note in notes {
        number += 1;
        let entry = AuditEntry::new(number, now, (*note).clone(), before);
        before = entry.hash;
        entries.push(entry);
    }
    let no: Vec<i64> = entries.iter().map(|entry| column(entry.number)).collect();
    let scope: Vec<&str> = entries.iter().map(|entry| to_scope(&entry.scope)).collect();
    let body: Vec<Vec<u8>> =
        entries.iter().map(|entry| to_row(column(entry.number), entry)).collect();
    let params: [Param<'_>; 3] =
        [(&no, Type::INT8_ARRAY), (&scope, Type::TEXT_ARRAY), (&body, Type::BYTEA_ARRAY)];
    db.run(sql::AUDIT_INSERT, &params).await.map(drop)
}

/// A page of entries, newest first.
pub(super) async fn page(
    db: &Lent,
    scope: &Scope,
    before: Option<u64>,
    limit: usize,
) -> Result<Vec<AuditEntry>, Trouble> {
    let before = before.map_or(i64::MAX, column);
    let limit = i64::try_from(limit.min(PAGE_MAX)).unwrap_or(i64::MAX);
    let mut params: Vec<Param<'_>> = vec![(&before, Type::INT8), (&limit, Type::INT8)];
    let tenant;
    let sql = match scope {
        Scope::All => sql::AUDIT,
        Scope::One(own) => {
            tenant = own.as_str();
            params.push((&tenant, Type::TEXT));
            sql::AUDIT_OF
        }
    };
    db.rows(sql, &params).await?.iter().map(entry).collect()
}

pub(super) fn entry(row: &Row) -> Result<AuditEntry, Trouble> {
    let (number, scope): (i64, &str) = (row.try_get(0)?, row.try_get(1)?);
    let entry: AuditEntry = from_row(number, row.try_get(2)?)?;
    if (column(entry.number), to_scope(&entry.scope)) != (number, scope) {
        return Err(Trouble::Impossible("an entry of the audit log is in another's place"));
    }
    Ok(entry)
}

/// Replaces a key, or adds one where its tenant may have another. The row of settings,
/// which is locked, keeps two nodes from both adding the last one.
pub(super) async fn put_key(
    db: &Lent,
    key: &ApiKey,
    limits: &TenantLimits,
) -> Result<Result<(), Refusal>, Trouble> {
    // A key for all tenants may have made keys of any.
    let kept = match &key.grant.scope {
        Scope::All => keys(db).await?,
        one @ Scope::One(_) => keys_of(db, one).await?,
    };
    if kept.iter().all(|kept| kept.id != key.id) {
        let now = super::time::wall(db).await?;
        match limits.room_for_key(kept.iter(), &key.grant.scope, now) {
            Ok(None) => {}
            Ok(Some(ended)) => {
                db.run(sql::API_KEY_DROP, &[(&number(ended), Type::INT8)]).await?;
            }
            Err(refusal) => return Ok(Err(refusal)),
        }
    }
    let no = number(key.id);
    let (scope, body) = (to_scope(&key.grant.scope), to_row(no, key));
    let params: [Param<'_>; 3] = [(&no, Type::INT8), (&scope, Type::TEXT), (&body, Type::BYTEA)];
    db.run(sql::API_KEY_PUT, &params).await?;
    Ok(Ok(()))
}

pub(super) async fn put_signing_key(db: &Lent, key: &SigningKey) -> Result<(), Trouble> {
    put(db, sql::SIGNING_KEY_PUT, key.id, key).await
}

async fn put<T: Body>(db: &Lent, sql: &str, id: KeyId, key: &T) -> Result<(), Trouble> {
    let no = number(id);
    let body = to_row(no, key);
    db.run(sql, &[(&no, Type::INT8), (&body, Type::BYTEA)]).await.map(drop)
}

/// All API keys, oldest first.
pub(super) async fn keys(db: &Lent) -> Result<Vec<ApiKey>, Trouble> {
    let mut keys: Vec<ApiKey> = load(db, sql::API_KEYS, &[], |key: &ApiKey| key.id).await?;
    keys.sort_by_key(|key| (key.created_at, key.id));
    Ok(keys)
}

/// The API keys of one tenant, or those of all tenants together, oldest first.
pub(super) async fn keys_of(db: &Lent, scope: &Scope) -> Result<Vec<ApiKey>, Trouble> {
    let name = to_scope(scope);
    let params: [Param<'_>; 1] = [(&name, Type::TEXT)];
    let mut keys = load(db, sql::API_KEYS_OF, &params, |key: &ApiKey| key.id).await?;
    if keys.iter().any(|key| key.grant.scope != *scope) {
        return Err(Trouble::Impossible("a key is kept under another's tenant"));
    }
    keys.sort_by_key(|key| (key.created_at, key.id));
    Ok(keys)
}

/// All signing keys, oldest first.
pub(super) async fn signing_keys(db: &Lent) -> Result<Vec<SigningKey>, Trouble> {
    let mut keys: Vec<SigningKey> =
        load(db, sql::SIGNING_KEYS, &[], |key: &SigningKey| key.id).await?;
    keys.sort_by_key(|key| (key.created_at, key.id));
    Ok(keys)
}

async fn load<T: Body>(
    db: &Lent,
    sql: &str,
    params: &[Param<'_>],
    id: impl Fn(&T) -> KeyId,
) -> Result<Vec<T>, Trouble> {
    let mut keys = Vec::new();
    for row in db.rows(sql, params).await? {
        let no: i64 = row.try_get(0)?;
        let key: T = from_row(no, row.try_get(1)?)?;
        if number(id(&key)) != no {
            return Err(Trouble::Impossible("a key is kept under another's id"));
        }
        keys.push(key);
    }
    Ok(keys)
}

/// An id as a column: the same bits.
fn number(id: KeyId) -> i64 {
    id.0.cast_signed()
}
