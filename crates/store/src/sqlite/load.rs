//! Reading one job, by anybody: the writer within its transaction, or a reader.

use super::{
    body::{from_row, job_from_row},
    error::TransactionError,
    inline_history::HistoryRow,
    maintenance::to_i64,
    seal::{Kind, unseal},
    sql,
};
use crate::codec::stored::NOT_WHOLE;
pub(super) use crate::codec::stored::Stored;
use engine::{Envelope, HistoryEntry, JobId, JsonText, LeaseToken, Scope, Step, StepName};
use rusqlite::{
    Connection, Params, Row,
    types::{FromSql, ValueRef},
};
use std::sync::Arc;

pub(super) fn job_by_id(db: &Connection, id: JobId) -> Result<Option<Stored>, TransactionError> {
    match first(db, sql::JOB_BY_ID, [&id.to_bytes()[..]], read_stored)? {
        // The column and its index say so, but the sealed row says otherwise.
        Some(stored) if stored.job.id() != id => {
            Err(TransactionError::Impossible("a job is kept under another's id"))
        }
        found => Ok(found),
    }
}

/// The same, where it is in scope.
pub(super) fn visible(
    db: &Connection,
    scope: &Scope,
    id: JobId,
) -> Result<Option<Stored>, TransactionError> {
    let stored = job_by_id(db, id)?;
    Ok(stored.filter(|stored| scope.covers(&stored.job.envelope.tenant)))
}

pub(super) fn job_by_no(db: &Connection, no: i64) -> Result<Option<Stored>, TransactionError> {
    first(db, sql::JOB_BY_NO, [no], read_stored)
}

fn read_stored(row: &Row<'_>) -> Result<Stored, TransactionError> {
    let no = row.get(0)?;
    let envelope: Envelope = from_row(no, blob(row, 1)?)?;
    let live = row.get_ref(2)?;
    let body = if live == ValueRef::Null { blob(row, 3) } else { blob(row, 2) };
    let body =
        body.map_err(|_| TransactionError::Impossible("a job was handed over and has no state"))?;
    let (job, recent) = job_from_row(no, body, Arc::new(envelope))?;
    Ok(Stored { no, queue: row.get(4)?, job, recent })
}

/// The live jobs from one number to another, each with what it was handed over with.
pub(super) fn start(
    db: &Connection,
    (first, last): (i64, i64),
    mut found: impl FnMut(Result<(Stored, JsonText), TransactionError>),
) -> Result<(), TransactionError> {
    let mut statement = db.prepare_cached(sql::START)?;
    let mut rows = statement.query([first, last])?;
    while let Some(row) = rows.next()? {
        let no = row.get(0)?;
        let read = || Ok((read_stored(row)?, read_payload(no, blob(row, 5)?)?));
        found(read());
    }
    Ok(())
}

pub(super) fn payload(db: &Connection, no: i64) -> Result<JsonText, TransactionError> {
    let payload = first(db, sql::PAYLOAD, [no], |row| read_payload(no, blob(row, 0)?))?;
    payload.ok_or(TransactionError::Impossible("a job has no payload"))
}

fn read_payload(no: i64, sealed: &[u8]) -> Result<JsonText, TransactionError> {
    let bytes = unseal(Kind::Payload, no, sealed)?;
    let text = std::str::from_utf8(bytes)
        .map_err(|_| TransactionError::Impossible("a payload is no text"));
    Ok(JsonText::from_stored(text?))
}

/// The history of a job after row `after`.
pub(super) fn history(
    db: &Connection,
    stored: &Stored,
    after: u64,
) -> Result<Vec<HistoryEntry>, TransactionError> {
    let values = (stored.no, to_i64(after));
    let moved = all(db, sql::HISTORY, values, |row| entry(stored.no, row))?;
    stored.history(moved, after)?.ok_or(TransactionError::Impossible(NOT_WHOLE))
}

/// The record of the attempt that `token` ended.
pub(super) fn record(
    db: &Connection,
    stored: &Stored,
    token: &LeaseToken,
) -> Result<Option<engine::AttemptRecord>, TransactionError> {
    let recent = stored.recent.rows(stored.no)?;
    let found = recent.iter().rev().find_map(|noted| noted.entry.record_of(token));
    // Only a long history has rows of its own.
    if found.is_some() || recent.first().is_none_or(|noted| noted.entry.seq == 1) {
        return Ok(found);
    }
    let mut statement = db.prepare_cached(sql::HISTORY_NEWEST_FIRST)?;
    let mut entries = statement.query_and_then([stored.no], |row| entry(stored.no, row))?;
    entries.find_map(|entry| entry.map(|entry| entry.record_of(token)).transpose()).transpose()
}

/// The numbers of the announcements of a job about what came after row `after` of its history, in order.
pub(super) fn events_of(
    db: &Connection,
    stored: &Stored,
    after: u64,
) -> Result<Vec<i64>, TransactionError> {
    let mut events = numbers(db, sql::EVENTS_OF_JOB, (stored.no, to_i64(after)))?;
    let recent: Vec<HistoryRow> = stored.recent.rows(stored.no)?;
    let recent = recent.into_iter().filter(|noted| noted.entry.seq > after);
    events.extend(recent.filter_map(|noted| noted.event));
    Ok(events)
}

/// What is kept of a job that announcements are about.
pub(super) fn envelope(db: &Connection, no: i64) -> Result<Envelope, TransactionError> {
    let envelope = first(db, sql::ENVELOPE, [no], |row| Ok(from_row(no, blob(row, 0)?)?))?;
    envelope.ok_or(TransactionError::Impossible("a query without a row"))
}

fn entry(no: i64, row: &Row<'_>) -> Result<HistoryEntry, TransactionError> {
    let seq: u64 = row.get(0)?;
    let entry: HistoryEntry = from_row(no, blob(row, 1)?)?;
    if entry.seq != seq {
        return Err(TransactionError::Impossible("a history row is kept in another's place"));
    }
    Ok(entry)
}

pub(super) fn step(
    db: &Connection,
    no: i64,
    name: &StepName,
) -> Result<Option<Step>, TransactionError> {
    first(db, sql::STEP, (no, name.as_str()), |row| {
        let step: Step = from_row(no, blob(row, 0)?)?;
        if step.name != *name {
            return Err(TransactionError::Impossible("a step has another's name"));
        }
        Ok(step)
    })
}

pub(super) fn steps_count(db: &Connection, no: i64) -> Result<u64, TransactionError> {
    one(db, sql::STEPS_COUNT, [no])
}

/// What was found, or nothing where a row is damaged: one job that cannot be read must not keep the others
/// from being swept.
pub(super) fn readable<T>(
    found: Result<T, TransactionError>,
) -> Result<Option<T>, TransactionError> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(trouble) if trouble.is_about_a_row() => Ok(None),
        Err(trouble) => Err(trouble),
    }
}

/// What every row of an answer says.
pub(super) fn all<T, C: FromIterator<T>>(
    db: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnMut(&Row<'_>) -> Result<T, TransactionError>,
) -> Result<C, TransactionError> {
    db.prepare_cached(sql)?.query_and_then(params, read)?.collect()
}

/// What the first row of an answer says, if it has one.
pub(super) fn first<T>(
    db: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnOnce(&Row<'_>) -> Result<T, TransactionError>,
) -> Result<Option<T>, TransactionError> {
    let mut statement = db.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    rows.next()?.map(read).transpose()
}

/// The one value that an answer always has.
pub(super) fn one<T: FromSql>(
    db: &Connection,
    sql: &str,
    params: impl Params,
) -> Result<T, TransactionError> {
    Ok(db.prepare_cached(sql)?.query_row(params, |row| row.get(0))?)
}

/// Two columns of a row.
pub(super) fn pair<A: FromSql, B: FromSql>(row: &Row<'_>) -> Result<(A, B), TransactionError> {
    Ok((row.get(0)?, row.get(1)?))
}

/// The first column of every row.
pub(super) fn numbers(
    db: &Connection,
    sql: &str,
    params: impl Params,
) -> Result<Vec<i64>, TransactionError> {
    all(db, sql, params, |row| Ok(row.get(0)?))
}

/// Carries out a statement that has no answer.
pub(super) fn run(db: &Connection, sql: &str, params: impl Params) -> Result<(), TransactionError> {
    db.prepare_cached(sql)?.execute(params)?;
    Ok(())
}

pub(super) fn blob<'a>(row: &'a Row<'_>, column: usize) -> Result<&'a [u8], TransactionError> {
    Ok(row.get_ref(column)?.as_blob().map_err(rusqlite::Error::from)?)
}
