//! Records: one small table. The writer holds all of it in memory, and readers read what they need.

use super::{
    body::{from_scope, record_from_row, record_to_row, to_scope},
    error::Trouble,
    load::blob,
    sql,
};
use crate::record::{Record, RecordKind, RecordName, Records};
use rusqlite::{Connection, Rows};

/// The records that batches are decided by. A kind that this version does not know is a row of a
/// later version, or a damaged one: neither may be passed over in silence.
pub(super) fn load_for_batches(db: &Connection) -> Result<Records, Trouble> {
    const UNKNOWN: Trouble = Trouble::Impossible(
        "a record is of a kind that this version does not know: it is damaged, or of a later version",
    );
    let mut kinds = db.prepare_cached(sql::RECORD_KINDS)?;
    let kinds = kinds.query_map([], |row| row.get::<_, String>(0))?;
    for kind in kinds {
        RecordKind::parse(&kind?).ok_or(UNKNOWN)?;
    }
    let kinds = RecordKind::ALL.into_iter().filter(|kind| kind.decides_batches());
    load(db, &kinds.collect::<Vec<_>>())
}

/// The records of these kinds.
pub(super) fn load(db: &Connection, kinds: &[RecordKind]) -> Result<Records, Trouble> {
    let mut records = Records::default();
    let mut statement = db.prepare_cached(sql::RECORDS_OF_KIND)?;
    for kind in kinds {
        collect(statement.query([kind.as_str()])?, &mut records)?;
    }
    Ok(records)
}

fn collect(mut rows: Rows<'_>, records: &mut Records) -> Result<(), Trouble> {
    const UNLAWFUL: Trouble = Trouble::Impossible("a record does not say what its name says");
    while let Some(row) = rows.next()? {
        let (kind, scope, key): (String, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let (Some(kind), Some(scope)) = (RecordKind::parse(&kind), from_scope(&scope)) else {
            return Err(UNLAWFUL);
        };
        let name = RecordName { kind, scope, key: key.into() };
        let record = record_from_row(name, blob(row, 3)?)?;
        records.put(record).map_err(|_| UNLAWFUL)?;
    }
    Ok(())
}

pub(super) fn put(db: &Connection, record: &Record) -> Result<(), Trouble> {
    let RecordName { kind, scope, key } = &record.name;
    let values = (kind.as_str(), to_scope(scope), &**key, record_to_row(record));
    db.prepare_cached(sql::RECORD_PUT)?.execute(values)?;
    Ok(())
}

pub(super) fn remove(db: &Connection, name: &RecordName) -> Result<(), Trouble> {
    let values = (name.kind.as_str(), to_scope(&name.scope), &*name.key);
    db.prepare_cached(sql::RECORD_REMOVE)?.execute(values)?;
    Ok(())
}
