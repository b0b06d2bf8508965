//! Reads jobs: locked, for a batch that decides on them, or unlocked, for reads.

use super::{
    error::{Result, TransactionError},
    pool::PooledConnection,
    sql,
    transaction::{Steps, Transaction, recent_record},
    uuid::{id_of, uuids},
    values::{Rows, to_i64},
};
use crate::{
    codec::{
        body::{from_row, job_from_row},
        stored::{INCOMPLETE_HISTORY, Stored, awaits_of},
    },
    unit_of_work::stale_token,
};
use engine::{Command, Envelope, HistoryEntry, JobId, JsonText, Step};
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};
use tokio_postgres::Row;

/// These jobs, live or ended, locked until the transaction ends. Missing ones are left out.
///
/// All transactions lock live jobs before ended ones, each kind in the order of numbers. If a job
/// was redriven while the statement waited, it cannot be locked in that order any more, and the
/// call fails.
pub(super) async fn locked(
    db: &PooledConnection,
    ids: &[JobId],
) -> Result<HashMap<JobId, Arc<Stored>>> {
    let mut found = live(db, ids).await?;
    let mut missing = ids.to_vec();
    missing.retain(|id| !found.contains_key(id));
    found.extend(jobs(db, sql::JOBS_ENDED, &missing).await?);
    missing.retain(|id| !found.contains_key(id));
    let became_live = read(db, &missing).await?;
    if became_live.is_empty() { Ok(found) } else { Err(TransactionError::LockOrder) }
}

/// The live ones of these jobs, locked until the transaction ends.
pub(super) async fn live(
    db: &PooledConnection,
    ids: &[JobId],
) -> Result<HashMap<JobId, Arc<Stored>>> {
    jobs(db, sql::JOBS_LIVE, ids).await
}

/// These jobs, unlocked. Missing ones are left out.
pub(super) async fn read(
    db: &PooledConnection,
    ids: &[JobId],
) -> Result<HashMap<JobId, Arc<Stored>>> {
    jobs(db, sql::JOBS_READ, ids).await
}

async fn jobs(
    db: &PooledConnection,
    sql: &str,
    ids: &[JobId],
) -> Result<HashMap<JobId, Arc<Stored>>> {
    let rows = db.rows_about(sql, &uuids(ids)).await?;
    let jobs = rows.iter().map(stored);
    jobs.map(|job| job.map(|stored| (stored.job.id(), Arc::new(stored)))).collect()
}

/// These jobs by their numbers, unlocked. Damaged ones are left out.
pub(super) async fn readable_by_no(
    db: &PooledConnection,
    numbers: &[i64],
) -> Result<HashMap<i64, Stored>> {
    let rows = db.rows_about(sql::JOBS_BY_NO, numbers).await?;
    let jobs = rows.iter().filter_map(|row| readable(stored(row)).transpose());
    jobs.map(|job| job.map(|stored| (stored.no, stored))).collect()
}

/// The value, or `None` if a row is damaged: an unreadable job must not keep the sweeper from the
/// others.
pub(super) fn readable<T>(row: Result<T>) -> Result<Option<T>> {
    match row {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_about_a_row() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Decodes a row of id, number, queue, envelope and body.
pub(super) fn stored(row: &Row) -> Result<Stored> {
    let (id, no, queue): (_, i64, i32) = (id_of(row, 0)?, row.try_get(1)?, row.try_get(2)?);
    let body: Option<&[u8]> = row.try_get(4)?;
    let body = body.ok_or(TransactionError::Inconsistent("a job has a submission and no state"))?;
    stored_of(id, (no, queue.into()), row.try_get(3)?, body)
}

pub(super) fn stored_of(
    id: JobId,
    (no, queue): (i64, i64),
    envelope: &[u8],
    body: &[u8],
) -> Result<Stored> {
    let envelope: Envelope = from_row(no, envelope)?;
    // The id column and its index name this id, but the sealed row names another.
    if envelope.id != id {
        return Err(TransactionError::Inconsistent("a job is stored under the id of another job"));
    }
    let (job, recent) = job_from_row(no, body, Arc::new(envelope))?;
    Ok(Stored { no, queue, job, recent })
}

pub(super) async fn payload(db: &PooledConnection, no: i64) -> Result<JsonText> {
    payload_if_there(db, no).await?.ok_or(TransactionError::Inconsistent("a job has no payload"))
}

/// The payload, if the job still exists.
pub(super) async fn payload_if_there(db: &PooledConnection, no: i64) -> Result<Option<JsonText>> {
    let rows = db.rows(sql::PAYLOAD, &[&no]).await?;
    rows.first().map(|row| Ok(JsonText::from_stored(row.try_get(0)?))).transpose()
}

/// The history of a job after entry `after`, if all of it is in the job's row.
pub(super) fn short_history(stored: &Stored, after: u64) -> Result<Option<Vec<HistoryEntry>>> {
    let recent = stored.recent.rows(stored.no)?;
    if recent.first().is_none_or(|noted| noted.entry.seq != 1) {
        return Ok(None);
    }
    let entries = recent.into_iter().map(|noted| noted.entry);
    Ok(Some(entries.filter(|entry| entry.seq > after).collect()))
}

/// The history of a job after entry `after`.
pub(super) async fn history(
    db: &PooledConnection,
    stored: &Stored,
    after: u64,
) -> Result<Vec<HistoryEntry>> {
    let rows = history_rows(db, &[stored.no], after).await?;
    let moved = rows.into_iter().map(|(_, _, entry)| entry).collect();
    stored.history(moved, after)?.ok_or(TransactionError::Inconsistent(INCOMPLETE_HISTORY))
}

/// History rows that have moved out of the rows of their jobs: number, outbox position of the
/// event, entry.
pub(super) async fn history_rows(
    db: &PooledConnection,
    numbers: &[i64],
    after: u64,
) -> Result<Vec<(i64, Option<i64>, HistoryEntry)>> {
    if numbers.is_empty() {
        return Ok(Vec::new());
    }
    let rows = db.rows(sql::HISTORY, &[&numbers, &to_i64(after)]).await?;
    let read = |row: &Row| {
        let (no, seq): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
        let entry: HistoryEntry = from_row(no, row.try_get(3)?)?;
        if i64::try_from(entry.seq) != Ok(seq) {
            return Err(TransactionError::Inconsistent(
                "a history row contradicts its sequence number",
            ));
        }
        Ok((no, row.try_get(2)?, entry))
    };
    rows.iter().map(read).collect()
}

/// Loads what some commands need beside their jobs: old attempt records, and steps.
pub(super) async fn details(
    db: &PooledConnection,
    transaction: &mut Transaction,
    commands: &[(JobId, &Command)],
) -> Result<()> {
    let (mut long_histories, mut by_name) = (Vec::new(), Rows::default());
    let mut parents = Rows::default();
    for (id, command) in commands {
        let Some(stored) = transaction.jobs.get(id) else { continue };
        if let Some(token) = stale_token(&stored.job, command)
            && recent_record(stored, token)?.is_none()
            && is_long(stored)?
        {
            long_histories.push(stored.no);
        }
        if let Some(name) = command.step() {
            by_name.push((stored.no, name.as_str()));
        }
        if command.depends_on_children() {
            parents.push((stored.no, awaits_of(&stored.job)));
        }
    }
    let (rows, steps, parents_of_live) = tokio::try_join!(
        biased;
        history_rows(db, &long_histories, 0),
        steps(db, &by_name),
        parents_of_live(db, &parents),
    )?;
    for (no, _, entry) in rows.into_iter().rev() {
        transaction.history.entry(no).or_default().push(entry);
    }
    (transaction.steps, transaction.parents_of_live) = (steps, parents_of_live);
    Ok(())
}

/// Which of these jobs, by their numbers, have a child that has not ended.
async fn parents_of_live(
    db: &PooledConnection,
    parents: &Rows<(i64, i64)>,
) -> Result<HashSet<i64>> {
    if parents.is_empty() {
        return Ok(HashSet::new());
    }
    let rows = db.rows(sql::PARENTS_OF_LIVE, &parents.params()).await?;
    rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
}

/// Whether part of the job's history has moved out of its row.
fn is_long(stored: &Stored) -> Result<bool> {
    let recent = stored.recent.rows(stored.no)?;
    Ok(recent.first().is_some_and(|noted| noted.entry.seq != 1))
}

async fn steps(db: &PooledConnection, by_name: &Rows<(i64, &str)>) -> Result<HashMap<i64, Steps>> {
    let mut found: HashMap<i64, Steps> = HashMap::new();
    if by_name.is_empty() {
        return Ok(found);
    }
    let by_name = by_name.params();
    let (by_name, counts) = tokio::try_join!(
        biased;
        db.rows(sql::STEPS, &by_name),
        db.rows(sql::STEPS_COUNT, &by_name[..1]),
    )?;
    for row in &by_name {
        let (no, name): (i64, &str) = (row.try_get(0)?, row.try_get(1)?);
        let step: Step = from_row(no, row.try_get(2)?)?;
        if step.name.as_str() != name {
            return Err(TransactionError::Inconsistent("a step contradicts its name"));
        }
        found.entry(no).or_default().by_name.insert(name.into(), step);
    }
    for row in &counts {
        let count: i64 = row.try_get(1)?;
        found.entry(row.try_get(0)?).or_default().count = count.unsigned_abs();
    }
    Ok(found)
}
