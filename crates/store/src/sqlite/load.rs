//! Reading one job, by anybody: the writer within its transaction, or a reader.

use super::{
    body::{from_row, job_from_row},
    error::Trouble,
    recent::Noted,
    seal::{Kind, unseal},
    sql,
};
pub(super) use crate::form::stored::Stored;
use engine::{Envelope, HistoryEntry, JobId, JsonText, LeaseToken, Step, StepName};
use rusqlite::{CachedStatement, Connection, Params, Row, types::ValueRef};
use std::sync::Arc;

pub(super) fn job_by_id(db: &Connection, id: JobId) -> Result<Option<Stored>, Trouble> {
    let stored = stored(db, sql::JOB_BY_ID, [&id.to_bytes()[..]])?;
    match stored {
        // The column and its index say so, but the sealed row says otherwise.
        Some(stored) if stored.job.id() != id => {
            Err(Trouble::Impossible("a job is kept under another's id"))
        }
        found => Ok(found),
    }
}

pub(super) fn job_by_no(db: &Connection, no: i64) -> Result<Option<Stored>, Trouble> {
    stored(db, sql::JOB_BY_NO, [no])
}

fn stored(db: &Connection, sql: &str, params: impl Params) -> Result<Option<Stored>, Trouble> {
    let mut statement = db.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    rows.next()?.map(read_stored).transpose()
}

fn read_stored(row: &Row<'_>) -> Result<Stored, Trouble> {
    let no = row.get(0)?;
    let envelope: Envelope = from_row(no, blob(row, 1)?)?;
    let live = row.get_ref(2)?;
    let body = if live == ValueRef::Null { blob(row, 3) } else { blob(row, 2) };
    let body = body.map_err(|_| Trouble::Impossible("a job was handed over and has no state"))?;
    let (job, recent) = job_from_row(no, body, Arc::new(envelope))?;
    Ok(Stored { no, queue: row.get(4)?, job, recent })
}

/// The live jobs from one number to another, each with what it was handed over with.
pub(super) fn start(
    db: &Connection,
    (first, last): (i64, i64),
    mut found: impl FnMut(Result<(Stored, JsonText), Trouble>),
) -> Result<(), Trouble> {
    let mut statement = db.prepare_cached(sql::START)?;
    let mut rows = statement.query([first, last])?;
    while let Some(row) = rows.next()? {
        let no = row.get(0)?;
        let read = || Ok((read_stored(row)?, read_payload(no, blob(row, 5)?)?));
        found(read());
    }
    Ok(())
}

pub(super) fn payload(db: &Connection, no: i64) -> Result<JsonText, Trouble> {
    let mut statement = db.prepare_cached(sql::PAYLOAD)?;
    let mut rows = statement.query([no])?;
    let row = rows.next()?.ok_or(Trouble::Impossible("a job has no payload"))?;
    read_payload(no, blob(row, 0)?)
}

fn read_payload(no: i64, sealed: &[u8]) -> Result<JsonText, Trouble> {
    let bytes = unseal(Kind::Payload, no, sealed)?;
    let text = std::str::from_utf8(bytes).map_err(|_| Trouble::Impossible("a payload is no text"));
    Ok(JsonText::from_stored(text?))
}

/// The history of a job after row `after`. A row that is not there at all has no seal to say so, but
/// the job knows how many there are.
pub(super) fn history(
    db: &Connection,
    stored: &Stored,
    after: u64,
) -> Result<Vec<HistoryEntry>, Trouble> {
    let mut statement = db.prepare_cached(sql::HISTORY)?;
    let mut rows = statement.query((stored.no, i64::try_from(after).unwrap_or(i64::MAX)))?;
    let mut entries = Vec::new();
    while let Some(row) = rows.next()? {
        entries.push(entry(stored.no, row)?);
    }
    let recent = stored.recent.rows(stored.no)?.into_iter().map(|noted| noted.entry);
    entries.extend(recent.filter(|entry| entry.seq > after));
    let expected = after.saturating_add(1)..=stored.job.seq;
    if !entries.iter().map(|entry| entry.seq).eq(expected) {
        return Err(Trouble::Impossible("a history is not as long as its job says"));
    }
    Ok(entries)
}

/// The record of the attempt that `token` ended.
pub(super) fn record(
    db: &Connection,
    stored: &Stored,
    token: &LeaseToken,
) -> Result<Option<engine::AttemptRecord>, Trouble> {
    let recent = stored.recent.rows(stored.no)?;
    let found = recent.iter().rev().find_map(|noted| noted.entry.record_of(token));
    // Only a long history has rows of its own.
    if found.is_some() || recent.first().is_none_or(|noted| noted.entry.seq == 1) {
        return Ok(found);
    }
    let mut statement = db.prepare_cached(sql::HISTORY_NEWEST_FIRST)?;
    let mut rows = statement.query([stored.no])?;
    while let Some(row) = rows.next()? {
        if let Some(record) = entry(stored.no, row)?.record_of(token) {
            return Ok(Some(record));
        }
    }
    Ok(None)
}

/// The numbers of the announcements of a job about what came after row `after` of its history, in order.
pub(super) fn events_of(db: &Connection, stored: &Stored, after: u64) -> Result<Vec<i64>, Trouble> {
    let values = (stored.no, i64::try_from(after).unwrap_or(i64::MAX));
    let mut events = numbers(&mut db.prepare_cached(sql::EVENTS_OF_JOB)?, values)?;
    let recent: Vec<Noted> = stored.recent.rows(stored.no)?;
    let recent = recent.into_iter().filter(|noted| noted.entry.seq > after);
    events.extend(recent.filter_map(|noted| noted.event));
    Ok(events)
}

/// What is kept of a job that announcements are about.
pub(super) fn envelope(db: &Connection, no: i64) -> Result<Envelope, Trouble> {
    let mut statement = db.prepare_cached(sql::ENVELOPE)?;
    let mut rows = statement.query([no])?;
    let row = rows.next()?.ok_or(Trouble::Impossible("a query without a row"))?;
    Ok(from_row(no, blob(row, 0)?)?)
}

fn entry(no: i64, row: &Row<'_>) -> Result<HistoryEntry, Trouble> {
    let seq: u64 = row.get(0)?;
    let entry: HistoryEntry = from_row(no, blob(row, 1)?)?;
    if entry.seq != seq {
        return Err(Trouble::Impossible("a history row is kept in another's place"));
    }
    Ok(entry)
}

pub(super) fn step(db: &Connection, no: i64, name: &StepName) -> Result<Option<Step>, Trouble> {
    let mut statement = db.prepare_cached(sql::STEP)?;
    let mut rows = statement.query((no, name.as_str()))?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let step: Step = from_row(no, blob(row, 0)?)?;
    if step.name != *name {
        return Err(Trouble::Impossible("a step has another's name"));
    }
    Ok(Some(step))
}

pub(super) fn steps_count(db: &Connection, no: i64) -> Result<u64, Trouble> {
    Ok(db.prepare_cached(sql::STEPS_COUNT)?.query_row([no], |row| row.get(0))?)
}

/// What was found, or nothing where a row is damaged: one job that cannot be read must not keep the others
/// from being swept.
pub(super) fn readable<T>(found: Result<T, Trouble>) -> Result<Option<T>, Trouble> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(trouble) if trouble.is_about_a_row() => Ok(None),
        Err(trouble) => Err(trouble),
    }
}

/// The first column of every row.
pub(super) fn numbers(
    statement: &mut CachedStatement<'_>,
    params: impl Params,
) -> Result<Vec<i64>, Trouble> {
    let rows = statement.query_map(params, |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(super) fn blob<'a>(row: &'a Row<'_>, column: usize) -> Result<&'a [u8], Trouble> {
    Ok(row.get_ref(column)?.as_blob().map_err(rusqlite::Error::from)?)
}
