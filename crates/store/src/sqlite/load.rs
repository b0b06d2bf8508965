//! Reading one job: for the writer within its transaction, or for a reader.

use super::{
    body::{from_row, job_from_row},
    error::{Result, TransactionError},
    inline_history::HistoryRow,
    maintenance::to_i64,
    seal::{Kind, unseal},
    sql,
};
pub(super) use crate::codec::stored::Stored;
use crate::codec::stored::{INCOMPLETE_HISTORY, awaits_of};
use engine::{Envelope, HistoryEntry, Job, JobId, JsonText, LeaseToken, Scope, Step, StepName};
use rusqlite::{
    Connection, Params, Row,
    types::{FromSql, ValueRef},
};
use std::sync::Arc;

pub(super) fn job_by_id(db: &Connection, id: JobId) -> Result<Option<Stored>> {
    match first(db, sql::JOB_BY_ID, [&id.to_bytes()[..]], read_stored)? {
        // The column and its index have this id, but the sealed row has another one.
        Some(stored) if stored.job.id() != id => {
            Err(TransactionError::Inconsistent("a job is stored under another id"))
        }
        found => Ok(found),
    }
}

/// The same, if the job is in scope.
pub(super) fn visible(db: &Connection, scope: &Scope, id: JobId) -> Result<Option<Stored>> {
    let stored = job_by_id(db, id)?;
    Ok(stored.filter(|stored| scope.covers(&stored.job.envelope.tenant)))
}

pub(super) fn job_by_no(db: &Connection, no: i64) -> Result<Option<Stored>> {
    first(db, sql::JOB_BY_NO, [no], read_stored)
}

fn read_stored(row: &Row<'_>) -> Result<Stored> {
    let no = row.get(0)?;
    let envelope: Envelope = from_row(no, blob(row, 1)?)?;
    let live = row.get_ref(2)?;
    let body = if live == ValueRef::Null { blob(row, 3) } else { blob(row, 2) };
    let body =
        body.map_err(|_| TransactionError::Inconsistent("a job has a submission and no state"))?;
    let (job, recent) = job_from_row(no, body, Arc::new(envelope))?;
    Ok(Stored { no, queue: row.get(4)?, job, recent })
}

/// The live jobs from one number to another, each with the payload of its submit.
pub(super) fn jobs_to_start(
    db: &Connection,
    (first, last): (i64, i64),
    mut each: impl FnMut(Result<(Stored, JsonText)>),
) -> Result<()> {
    let mut statement = db.prepare_cached(sql::JOBS_TO_START)?;
    let mut rows = statement.query([first, last])?;
    while let Some(row) = rows.next()? {
        let no = row.get(0)?;
        let read = || Ok((read_stored(row)?, read_payload(no, blob(row, 5)?)?));
        each(read());
    }
    Ok(())
}

pub(super) fn payload(db: &Connection, no: i64) -> Result<JsonText> {
    let payload = first(db, sql::PAYLOAD, [no], |row| read_payload(no, blob(row, 0)?))?;
    payload.ok_or(TransactionError::Inconsistent("a job has no payload"))
}

fn read_payload(no: i64, sealed: &[u8]) -> Result<JsonText> {
    let bytes = unseal(Kind::Payload, no, sealed)?;
    let text = std::str::from_utf8(bytes)
        .map_err(|_| TransactionError::Inconsistent("a payload is not UTF-8"));
    Ok(JsonText::from_stored(text?))
}

/// The history of a job after row `after`.
pub(super) fn history(db: &Connection, stored: &Stored, after: u64) -> Result<Vec<HistoryEntry>> {
    let values = (stored.no, to_i64(after));
    let older = all(db, sql::HISTORY, values, |row| entry(stored.no, row))?;
    stored.history(older, after)?.ok_or(TransactionError::Inconsistent(INCOMPLETE_HISTORY))
}

/// The record of the attempt that `token` ended.
pub(super) fn record(
    db: &Connection,
    stored: &Stored,
    token: &LeaseToken,
) -> Result<Option<engine::AttemptRecord>> {
    let recent = stored.recent.rows(stored.no)?;
    let found = recent.iter().rev().find_map(|row| row.entry.record_of(token));
    // Only a long history has rows in the history table.
    if found.is_some() || recent.first().is_none_or(|row| row.entry.seq == 1) {
        return Ok(found);
    }
    let mut statement = db.prepare_cached(sql::HISTORY_NEWEST_FIRST)?;
    let mut entries = statement.query_and_then([stored.no], |row| entry(stored.no, row))?;
    entries.find_map(|entry| entry.map(|entry| entry.record_of(token)).transpose()).transpose()
}

/// The numbers of the events about a job after row `after` of its history, in order.
pub(super) fn events_of(db: &Connection, stored: &Stored, after: u64) -> Result<Vec<i64>> {
    let mut events = numbers(db, sql::EVENTS_OF_JOB, (stored.no, to_i64(after)))?;
    let recent: Vec<HistoryRow> = stored.recent.rows(stored.no)?;
    let recent = recent.into_iter().filter(|row| row.entry.seq > after);
    events.extend(recent.filter_map(|row| row.event));
    Ok(events)
}

/// The envelope of a job that events are about.
pub(super) fn envelope(db: &Connection, no: i64) -> Result<Envelope> {
    let envelope = first(db, sql::ENVELOPE, [no], |row| Ok(from_row(no, blob(row, 0)?)?))?;
    envelope.ok_or(TransactionError::Inconsistent("an event belongs to a job without an envelope"))
}

fn entry(no: i64, row: &Row<'_>) -> Result<HistoryEntry> {
    let seq: u64 = row.get(0)?;
    let entry: HistoryEntry = from_row(no, blob(row, 1)?)?;
    if entry.seq != seq {
        return Err(TransactionError::Inconsistent("a history row is stored under another number"));
    }
    Ok(entry)
}

pub(super) fn step(db: &Connection, no: i64, name: &StepName) -> Result<Option<Step>> {
    first(db, sql::STEP, (no, name.as_str()), |row| {
        let step: Step = from_row(no, blob(row, 0)?)?;
        if step.name != *name {
            return Err(TransactionError::Inconsistent("a step is stored under another name"));
        }
        Ok(step)
    })
}

pub(super) fn steps_count(db: &Connection, no: i64) -> Result<u64> {
    one(db, sql::STEPS_COUNT, [no])
}

/// How many children of a job have not ended, counted up to a limit.
pub(super) fn live_children(db: &Connection, parent: &Job, limit: u64) -> Result<u64> {
    one(db, sql::LIVE_CHILDREN, (awaits_of(parent), limit))
}

/// The value, or nothing if a row is damaged: one job that cannot be read must not keep the others
/// from being swept.
pub(super) fn readable<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_about_a_row() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads every row of a result.
pub(super) fn all<T, C: FromIterator<T>>(
    db: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnMut(&Row<'_>) -> Result<T>,
) -> Result<C> {
    db.prepare_cached(sql)?.query_and_then(params, read)?.collect()
}

/// Reads the first row of a result, if there is one.
pub(super) fn first<T>(
    db: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnOnce(&Row<'_>) -> Result<T>,
) -> Result<Option<T>> {
    let mut statement = db.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    rows.next()?.map(read).transpose()
}

/// Reads the one value of a result that always has one.
pub(super) fn one<T: FromSql>(db: &Connection, sql: &str, params: impl Params) -> Result<T> {
    Ok(db.prepare_cached(sql)?.query_row(params, |row| row.get(0))?)
}

pub(super) fn pair<A: FromSql, B: FromSql>(row: &Row<'_>) -> Result<(A, B)> {
    Ok((row.get(0)?, row.get(1)?))
}

/// The first column of every row.
pub(super) fn numbers(db: &Connection, sql: &str, params: impl Params) -> Result<Vec<i64>> {
    all(db, sql, params, |row| Ok(row.get(0)?))
}

/// Runs a statement that returns no rows.
pub(super) fn run(db: &Connection, sql: &str, params: impl Params) -> Result<()> {
    db.prepare_cached(sql)?.execute(params)?;
    Ok(())
}

pub(super) fn blob<'a>(row: &'a Row<'_>, column: usize) -> Result<&'a [u8]> {
    Ok(row.get_ref(column)?.as_blob().map_err(rusqlite::Error::from)?)
}
