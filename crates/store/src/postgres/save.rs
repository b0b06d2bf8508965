//! Writes what was decided: one statement for each table, sent one behind another in one round
//! trip.

use super::{
    Inner, audit, erase,
    error::{Result, TransactionError},
    locked,
    pending::{
        EndedRow, HistoryRow, LiveRow, PendingWrites, RowLocation, ended_row, live_row,
        queue_column, submission_row,
    },
    pool::PooledConnection,
    records, sql,
    transaction::Transaction,
    uuid::{Xid, to_uuid},
    values::{Param, Rows, to_i64},
};
use crate::codec::{
    body::{COUNTS, to_row},
    outbox_page::entries,
};
use engine::{JobId, Timestamp};
use std::{collections::BTreeMap, mem};

impl Inner {
    /// Writes everything decided so far, except keys and counts, which are written at the end. What
    /// every write must do is done here.
    pub(super) async fn write(
        &self,
        db: &PooledConnection,
        transaction: &mut Transaction,
    ) -> Result<()> {
        locked(&self.lines).note(&transaction.pending);
        if transaction.pending.is_empty() {
            return Ok(());
        }
        let mut pending = mem::take(&mut transaction.pending);
        // Later pages begin behind these.
        transaction.place += pending.lines;
        transaction.pending.deltas = mem::take(&mut pending.deltas);
        transaction.pending.ended_keys = mem::take(&mut pending.ended_keys);
        write(db, &pending, &mem::take(&mut transaction.recalled), &[]).await?;
        records::write(db, &pending.records).await?;
        erase::erase(db, &pending.erased).await?;
        audit::note(db, &pending.notes, transaction.now).await
    }
}

impl Transaction {
    /// Writes which job each key belongs to, and from when the windows of keys count.
    pub(super) async fn write_last(&self, db: &PooledConnection) -> Result<()> {
        let keys =
            self.keys.iter().map(|((queue, name), key)| (queue_column(*queue), &**name, key));
        let free = keys.clone().filter(|(.., key)| key.holder.is_none());
        let free: Rows<_> = free.map(|(queue, name, _)| (queue, name)).collect();
        let moved = keys.filter_map(|(queue, name, key)| {
            let holder = key.holder.filter(|holder| *holder != key.row)?;
            Some((queue, name, to_uuid(holder)))
        });
        let moved: Rows<_> = moved.collect();
        tokio::try_join!(
            biased;
            db.put(sql::KEYS_SET, &moved),
            db.put(sql::KEYS_DROP, &free),
            db.put(sql::KEYS_ENDED, &self.pending.ended_keys),
        )
        .map(drop)
    }
}

/// Writes the rows of jobs and what belongs to them. Rows of cached jobs must be as this node wrote
/// them. One of the statements writes the events of all.
pub(super) async fn write(
    db: &PooledConnection,
    pending: &PendingWrites,
    recalled: &BTreeMap<i64, Xid>,
    given: &[(i64, Vec<JobId>)],
) -> Result<()> {
    let rows = ChangedRows::of(pending);
    // Transactions lock rows in the order of their numbers, so one statement removes all of them:
    // the checked one or the other.
    let known: Rows<_> = recalled.iter().map(|(no, by)| (*no, *by)).collect();
    let (held, removed) = if recalled.keys().eq(&rows.gone) {
        (Rows::default(), known)
    } else {
        (known, Rows::default())
    };
    let gone = if removed.is_empty() { &rows.gone[..] } else { &[] };
    let (given, none_given) = (given_rows(given), Rows::default());
    let (announcements, nothing) = (Announcements::of(pending)?, Announcements::default());
    let begins = !pending.new.is_empty() || !rows.begun.is_empty();
    let ends = !begins && !removed.is_empty();
    let starts = !begins && !ends && !given.is_empty() && !rows.moved.is_empty();
    let by = |this: bool| if this { &announcements } else { &nothing };
    let history =
        |row: &HistoryRow| (row.no, to_i64(row.entry.seq), row.place, to_row(row.no, &row.entry));
    let history: Rows<_> = pending.history.iter().map(history).collect();
    let steps = pending.steps.iter();
    let steps: Rows<_> =
        steps.map(|((no, name), step)| (*no, name.as_str(), to_row(*no, step))).collect();
    tokio::try_join!(
        biased;
        db.put(sql::JOBS_KNOWN, &held),
        begin(db, pending, &rows.begun, by(begins)),
        update_live(db, &rows.moved, starts.then_some((&given, &announcements))),
        db.run_about(sql::JOB_DELETE, gone),
        db.run_about(sql::ENDED_DELETE, &rows.reopened),
        end(db, &removed, &rows.ended, by(ends)),
        update_ended(db, &rows.amended),
        db.put(sql::HISTORY_INSERT, &history),
        db.run_about(sql::STEPS_FORGET, &pending.steps_forgotten),
        db.put(sql::STEPS_PUT, &steps),
        announce(db, by(!begins && !ends && !starts)),
        db.put(sql::CLAIMS_GIVE, if starts { &none_given } else { &given }),
    )
    .map(drop)
}

/// The row changes that bring each job from its stored state to its new one.
#[derive(Default)]
struct ChangedRows {
    begun: Rows<LiveRow>,
    moved: Rows<LiveRow>,
    gone: Vec<i64>,
    reopened: Vec<i64>,
    ended: Rows<EndedRow>,
    amended: Rows<EndedRow>,
}

impl ChangedRows {
    fn of(pending: &PendingWrites) -> Self {
        let mut rows = ChangedRows::default();
        for touched in pending.jobs.values() {
            let now = &*touched.now;
            match (touched.was, RowLocation::of(&now.job)) {
                (None, RowLocation::Live) => rows.begun.push(live_row(now)),
                (None, RowLocation::Ended) => rows.ended.push(ended_row(now)),
                (Some(RowLocation::Live), RowLocation::Live) => rows.moved.push(live_row(now)),
                (Some(RowLocation::Live), RowLocation::Ended) => {
                    rows.gone.push(now.no);
                    rows.ended.push(ended_row(now));
                }
                (Some(RowLocation::Ended), RowLocation::Live) => {
                    rows.reopened.push(now.no);
                    rows.begun.push(live_row(now));
                }
                (Some(RowLocation::Ended), RowLocation::Ended) => rows.amended.push(ended_row(now)),
            }
        }
        rows
    }
}

async fn begin(
    db: &PooledConnection,
    pending: &PendingWrites,
    live: &Rows<LiveRow>,
    announcements: &Announcements<'_>,
) -> Result<()> {
    let submissions: Rows<_> = pending.new.iter().map(submission_row).collect();
    if submissions.is_empty() && live.is_empty() {
        return Ok(());
    }
    db.run(sql::JOBS_BEGIN, &announcements.and([submissions.params(), live.params()]))
        .await
        .map(drop)
}

/// Writes new jobs, and nothing else, with a predicted time and cached settings. Returns an outbox
/// position for a later batch.
pub(super) async fn fast_submit(
    db: &PooledConnection,
    pending: &PendingWrites,
    (now, settings): (Timestamp, i64),
) -> Result<i64> {
    let submissions: Rows<_> = pending.new.iter().map(submission_row).collect();
    // If all jobs were refused, no statement would check the prediction.
    if submissions.is_empty() || submissions.count() != pending.jobs.len() {
        return Err(TransactionError::Changed);
    }
    let (begun, announcements, now) =
        (ChangedRows::of(pending).begun, Announcements::of(pending)?, now.unix_ms());
    let params = announcements.and([submissions.params(), begun.params(), vec![&settings, &now]]);
    Ok(db.row(sql::FAST_SUBMIT, &params, "a fast submit returned no row").await?.try_get(0)?)
}

/// If claims started all of these jobs, the same statement writes what each claim got.
async fn update_live(
    db: &PooledConnection,
    rows: &Rows<LiveRow>,
    started: Option<(&Rows<GivenRow>, &Announcements<'_>)>,
) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let mut own = rows.params();
    own.remove(0); // the queue, which never changes
    match started {
        None => db.run(sql::JOB_UPDATE, &own).await.map(drop),
        Some((given, announcements)) => {
            db.run(sql::JOBS_START, &announcements.and([own, given.params()])).await.map(drop)
        }
    }
}

/// Writes jobs that have ended. The same statement removes the live rows that this transaction has
/// not locked.
async fn end(
    db: &PooledConnection,
    removed: &Rows<(i64, Xid)>,
    rows: &Rows<EndedRow>,
    announcements: &Announcements<'_>,
) -> Result<()> {
    if removed.is_empty() {
        return db.put(sql::ENDED_INSERT, rows).await;
    }
    db.run(sql::JOBS_END_KNOWN, &announcements.and([removed.params(), rows.params()]))
        .await
        .map(drop)
}

async fn update_ended(db: &PooledConnection, rows: &Rows<EndedRow>) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    db.run(sql::ENDED_UPDATE, &rows.params()[2..]).await.map(drop)
}

/// The events of a transaction, and their changes of the counts.
#[derive(Default)]
struct Announcements<'a> {
    sheets: Rows<(i64, &'a [u8], i32)>,
    queues: Vec<i32>,
    counts: [Vec<i64>; COUNTS],
}

impl<'a> Announcements<'a> {
    fn of(pending: &'a PendingWrites) -> Result<Self> {
        let mut announcements = Announcements::default();
        for (place, sheet) in &pending.sheets.written {
            let count = i32::try_from(entries(*place, sheet)?.len()).unwrap_or(0);
            announcements.sheets.push((*place, sheet, count));
        }
        let deltas = pending.deltas.0.iter().filter(|(_, counts)| **counts != [0; COUNTS]);
        for (queue, counts) in deltas {
            announcements.queues.push(queue_column(*queue));
            announcements
                .counts
                .iter_mut()
                .zip(counts)
                .for_each(|(column, count)| column.push(*count));
        }
        Ok(announcements)
    }

    /// The parameters of a statement that writes events, followed by its other parameters.
    fn and<'b>(&'b self, others: impl IntoIterator<Item = Vec<Param<'b>>>) -> Vec<Param<'b>> {
        let mut params = self.sheets.params();
        params.push(&self.queues);
        params.extend(self.counts.iter().map(|column| column as Param<'_>));
        params.extend(others.into_iter().flatten());
        params
    }
}

async fn announce(db: &PooledConnection, announcements: &Announcements<'_>) -> Result<()> {
    if announcements.sheets.is_empty() && announcements.queues.is_empty() {
        return Ok(());
    }
    db.run(sql::ANNOUNCE, &announcements.and([])).await.map(drop)
}

/// A claim's digest, and the jobs it got.
type GivenRow = (i64, Vec<u8>);

fn given_rows(given: &[(i64, Vec<JobId>)]) -> Rows<GivenRow> {
    // Two claims may have one digest. They share the row; the job itself says which claim holds its
    // lease.
    let mut rows: BTreeMap<i64, Vec<u8>> = BTreeMap::new();
    for (digest, ids) in given {
        rows.entry(*digest).or_default().extend(ids.iter().flat_map(|id| id.to_bytes()));
    }
    rows.into_iter().collect()
}
