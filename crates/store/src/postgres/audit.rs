//! The audit log. A transaction that adds to it locks its end.

use super::{
    error::{Result, TransactionError},
    pool::PooledConnection,
    sql,
    values::to_i64,
};
use crate::{
    codec::body::{from_row, to_row, to_scope},
    store::PAGE_MAX,
};
use engine::{AuditEntry, AuditHash, AuditNote, Scope, Timestamp};
use tokio_postgres::Row;

/// Appends entries. The transaction has locked the end of the log since its first statement.
pub(super) async fn append(
    db: &PooledConnection,
    notes: &[AuditNote],
    now: Timestamp,
) -> Result<()> {
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
    let rows = entries.iter().map(|entry| {
        let number = to_i64(entry.number);
        (number, to_scope(&entry.scope), to_row(number, entry))
    });
    db.put(sql::AUDIT_INSERT, &rows.collect()).await
}

/// A page of entries, newest first.
pub(super) async fn page(
    db: &PooledConnection,
    scope: &Scope,
    before: Option<u64>,
    limit: usize,
) -> Result<Vec<AuditEntry>> {
    let (before, limit) = (before.map_or(i64::MAX, to_i64), to_i64(limit.min(PAGE_MAX)));
    let rows = match scope {
        Scope::All => db.rows(sql::AUDIT, &[&before, &limit]).await?,
        Scope::One(own) => db.rows(sql::AUDIT_OF, &[&before, &limit, &own.as_str()]).await?,
    };
    rows.iter().map(entry).collect()
}

pub(super) fn entry(row: &Row) -> Result<AuditEntry> {
    let (number, scope): (i64, &str) = (row.try_get(0)?, row.try_get(1)?);
    let entry: AuditEntry = from_row(number, row.try_get(2)?)?;
    if (to_i64(entry.number), to_scope(&entry.scope)) != (number, scope) {
        return Err(TransactionError::Inconsistent(
            "an entry of the audit log contradicts its number or scope",
        ));
    }
    Ok(entry)
}
