//! The audit log, whose end is locked by the transaction that adds to it.

use super::{
    error::Trouble,
    pool::{Lent, Param},
    save::column,
    sql,
};
use crate::{
    form::body::{from_row, to_row, to_scope},
    store::PAGE_MAX,
};
use engine::{AuditEntry, AuditHash, AuditNote, Scope, Timestamp};
use tokio_postgres::{Row, types::Type};

/// Adds entries. The end of the chain is locked since the transaction began.
pub(super) async fn note(db: &Lent, notes: &[AuditNote], now: Timestamp) -> Result<(), Trouble> {
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
        let entry = AuditEntry::new(number, now, note.clone(), before);
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
