//! Records: one small table. The writer holds all of it in memory, and readers read the kinds they
//! need.

use super::{
    body::{from_scope, record_from_row, record_to_row, to_scope},
    doctor::open_read_only,
    error::{OpenError, Result, TransactionError},
    load::{all, blob, run},
    open::Files,
    sql,
};
use crate::record::{Record, RecordKind, RecordName, Records};
use rusqlite::Connection;
use std::path::Path;

/// The records that decisions in batches need. A kind that this version does not know is a row of a
/// later version, or a damaged one: neither may be ignored silently.
pub(super) fn load_for_batches(db: &Connection) -> Result<Records> {
    const UNKNOWN: TransactionError = TransactionError::Inconsistent(
        "a record is of a kind that this version does not know: it is damaged, or of a later version",
    );
    all::<_, ()>(db, sql::RECORD_KINDS, [], |row| {
        RecordKind::parse(&row.get::<_, String>(0)?).map(drop).ok_or(UNKNOWN)
    })?;
    let kinds = RecordKind::ALL.into_iter().filter(|kind| kind.decides_batches());
    load(db, &kinds.collect::<Vec<_>>())
}

pub(super) fn load(db: &Connection, kinds: &[RecordKind]) -> Result<Records> {
    const MISNAMED: TransactionError =
        TransactionError::Inconsistent("the name of a record and its body do not agree");
    let mut records = Records::default();
    for kind in kinds {
        all(db, sql::RECORDS_OF_KIND, [kind.as_str()], |row| {
            let (scope, key): (String, String) = (row.get(1)?, row.get(2)?);
            let scope = from_scope(&scope).ok_or(MISNAMED)?;
            let name = RecordName { kind: *kind, scope, key: key.into() };
            let record = record_from_row(name, blob(row, 3)?)?;
            records.put(record).map_err(|_| MISNAMED)
        })?
    }
    Ok(records)
}

/// The records of one kind in the file at `path`, also while a server uses it.
pub fn read_records(path: &Path, kind: RecordKind) -> Result<Vec<Record>, OpenError> {
    let (db, _) = open_read_only(&Files::for_external_reader(path)?)?;
    let records = load(&db, &[kind]).map_err(|error| OpenError::unusable(path, error))?;
    Ok(records.list(kind, None, ""))
}

pub(super) fn put(db: &Connection, record: &Record) -> Result<()> {
    let RecordName { kind, scope, key } = &record.name;
    let values = (kind.as_str(), to_scope(scope), &**key, record_to_row(record));
    run(db, sql::RECORD_PUT, values)
}

pub(super) fn remove(db: &Connection, name: &RecordName) -> Result<()> {
    let values = (name.kind.as_str(), to_scope(&name.scope), &*name.key);
    run(db, sql::RECORD_REMOVE, values)
}
