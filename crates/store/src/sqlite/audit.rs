//! The audit log: each entry is chained to the one before it, and rows are only added.

use super::{
    body::{from_row, to_row, to_scope},
    doctor::open_read_only,
    error::{OpenError, Result, TransactionError},
    load::{all, blob, first, readable, run},
    maintenance::to_i64,
    open::Files,
    sql,
    writer::Writer,
};
use crate::{AuditChain, store::PAGE_MAX};
use engine::{AuditEntry, AuditHash, AuditNote, Scope, Timestamp};
use rusqlite::{Connection, Row};
use std::path::Path;

impl Writer {
    /// Adds an entry. Reads the end of the chain from the file instead of keeping it in memory:
    /// people change little, and a store that only runs jobs should not pay for it.
    pub(super) fn append_audit(&self, note: AuditNote) -> Result<()> {
        append(&self.db, note, self.now())
    }
}

pub(super) fn append(db: &Connection, note: AuditNote, at: Timestamp) -> Result<()> {
    let last = first(db, sql::AUDIT_HEAD, [], entry)?;
    let (last, before) = last.map_or((0, AuditHash::FIRST), |last| (last.number, last.hash));
    let entry = AuditEntry::new(last + 1, at, note, before);
    let no = to_i64(entry.number);
    let values = (no, to_scope(&entry.scope), to_row(no, &entry));
    run(db, sql::AUDIT_INSERT, values)
}

pub(super) fn page(
    db: &Connection,
    scope: &Scope,
    before: Option<u64>,
    limit: usize,
) -> Result<Vec<AuditEntry>> {
    let before = before.map_or(i64::MAX, to_i64);
    let limit = to_i64(limit.min(PAGE_MAX));
    match scope {
        Scope::All => all(db, sql::AUDIT, (before, limit), entry),
        Scope::One(tenant) => all(db, sql::AUDIT_OF, (before, limit, tenant.as_str()), entry),
    }
}

fn entry(row: &Row<'_>) -> Result<AuditEntry> {
    let number: i64 = row.get(0)?;
    let scope: String = row.get(1)?;
    let entry: AuditEntry = from_row(number, blob(row, 2)?)?;
    if (to_i64(entry.number), to_scope(&entry.scope)) != (number, scope.as_str()) {
        return Err(TransactionError::Inconsistent(
            "an entry of the audit log is stored under another number or scope",
        ));
    }
    Ok(entry)
}

/// Verifies the audit log of the store at `path`, also while the store is in use. Calls
/// `each_entry` with every verified entry, in order.
pub fn verify_audit(
    path: &Path,
    each_entry: &mut dyn FnMut(&AuditEntry),
) -> Result<AuditChain, OpenError> {
    let files = Files::for_external_reader(path)?;
    let (db, schema) = open_read_only(&files)?;
    if schema < AUDIT_SINCE {
        return Ok(AuditChain::Whole { entries: 0, head: AuditHash::FIRST });
    }
    verify(&db, each_entry).map_err(|error| OpenError::unusable(path, error))
}

pub(super) const AUDIT_SINCE: i64 = 2;

pub(super) fn verify(
    db: &Connection,
    each_entry: &mut dyn FnMut(&AuditEntry),
) -> Result<AuditChain> {
    let mut statement = db.prepare("select number, scope, body from audit order by number")?;
    let mut rows = statement.query([])?;
    let (mut entries, mut head) = (0, AuditHash::FIRST);
    while let Some(row) = rows.next()? {
        let next = entries + 1;
        let follows = |entry: &AuditEntry| entry.number == next && entry.follows(head);
        let Some(entry) = readable(entry(row))?.filter(follows) else {
            return Ok(AuditChain::Broken { number: next });
        };
        each_entry(&entry);
        (entries, head) = (next, entry.hash);
    }
    Ok(AuditChain::Whole { entries, head })
}
