//! Writing what was decided: a statement for each table, one behind another, in one journey.

use super::{
    Inner, audit, erase,
    error::TransactionError,
    locked,
    pending::{
        EndedRow, HistoryRow, LiveRow, PendingWrites, RowLocation, ended_row, handed_row, live_row,
        queue_column,
    },
    pool::PooledConnection,
    records, sql,
    transaction::Transaction,
    uuid::{Xid, to_uuid},
    values::{Param, Rows, to_i64},
};
use crate::codec::{
    body::{COUNTS, to_row},
    outbox_page::lines,
};
use engine::{JobId, Timestamp};
use std::{collections::BTreeMap, mem};

impl Inner {
    /// Writes everything that was decided so far, but for keys and counts, which are written at the
    /// end. What has to happen with every write happens here.
    pub(super) async fn write(
        &self,
        db: &PooledConnection,
        transaction: &mut Transaction,
    ) -> Result<(), TransactionError> {
        locked(&self.lines).note(&transaction.pending);
        if transaction.pending.is_empty() {
            return Ok(());
        }
        let mut pending = mem::take(&mut transaction.pending);
        // Sheets that follow begin behind these.
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
    /// Writes whose the keys are, and from when their windows count.
    pub(super) async fn write_last(&self, db: &PooledConnection) -> Result<(), TransactionError> {
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

/// Writes the rows of jobs and what belongs to them. Those that were recalled must be as they were written. One of the
/// statements announces all of it.
pub(super) async fn write(
    db: &PooledConnection,
    pending: &PendingWrites,
    recalled: &BTreeMap<i64, Xid>,
    given: &[(i64, Vec<JobId>)],
) -> Result<(), TransactionError> {
    let rows = ChangedRows::of(pending);
    // Whoever waits for rows waits for them in the order of their numbers, so this is one statement or the other.
    let known: Rows<_> = recalled.iter().map(|(no, by)| (*no, *by)).collect();
    let (held, removed) = if recalled.keys().eq(&rows.gone) {
        (Rows::default(), known)
    } else {
        (known, Rows::default())
    };
    let gone = if removed.is_empty() { &rows.gone[..] } else { &[] };
    let (given, none_given) = (given_rows(given), Rows::default());
    let (told, nothing) = (Announcements::of(pending)?, Announcements::default());
    let begins = !pending.new.is_empty() || !rows.begun.is_empty();
    let ends = !begins && !removed.is_empty();
    let starts = !begins && !ends && !given.is_empty() && !rows.moved.is_empty();
    let by = |this: bool| if this { &told } else { &nothing };
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
        update_live(db, &rows.moved, starts.then_some((&given, &told))),
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

/// What each job's way from where it stands to where it should means for the tables.
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
    told: &Announcements<'_>,
) -> Result<(), TransactionError> {
    let handed: Rows<_> = pending.new.iter().map(handed_row).collect();
    if handed.is_empty() && live.is_empty() {
        return Ok(());
    }
    db.run(sql::JOBS_BEGIN, &told.and([handed.params(), live.params()])).await.map(drop)
}

/// Writes new jobs, and nothing else, by a time that was foreseen and settings that are known. Gives a place for others.
pub(super) async fn fast_submit(
    db: &PooledConnection,
    pending: &PendingWrites,
    (now, settings): (Timestamp, i64),
) -> Result<i64, TransactionError> {
    let handed: Rows<_> = pending.new.iter().map(handed_row).collect();
    // Where all were refused, nothing would prove that it was right to.
    if handed.is_empty() || handed.count() != pending.jobs.len() {
        return Err(TransactionError::Changed);
    }
    let (begun, told, now) =
        (ChangedRows::of(pending).begun, Announcements::of(pending)?, now.unix_ms());
    let params = told.and([handed.params(), begun.params(), vec![&settings, &now]]);
    Ok(db.row(sql::HAND_OVER, &params, "nothing came of a hand-over").await?.try_get(0)?)
}

/// Where all of them were started by claims, it is noted by the same statement what those were
/// given.
async fn update_live(
    db: &PooledConnection,
    rows: &Rows<LiveRow>,
    started: Option<(&Rows<GivenRow>, &Announcements<'_>)>,
) -> Result<(), TransactionError> {
    if rows.is_empty() {
        return Ok(());
    }
    let mut own = rows.params();
    own.remove(0); // the queue, which never changes
    match started {
        None => db.run(sql::JOB_UPDATE, &own).await.map(drop),
        Some((given, told)) => {
            db.run(sql::JOBS_START, &told.and([own, given.params()])).await.map(drop)
        }
    }
}

/// Writes jobs that have ended. Those of them that nobody holds are removed from where they were by the same statement.
async fn end(
    db: &PooledConnection,
    removed: &Rows<(i64, Xid)>,
    rows: &Rows<EndedRow>,
    told: &Announcements<'_>,
) -> Result<(), TransactionError> {
    if removed.is_empty() {
        return db.put(sql::ENDED_INSERT, rows).await;
    }
    db.run(sql::JOBS_END_KNOWN, &told.and([removed.params(), rows.params()])).await.map(drop)
}

async fn update_ended(
    db: &PooledConnection,
    rows: &Rows<EndedRow>,
) -> Result<(), TransactionError> {
    if rows.is_empty() {
        return Ok(());
    }
    db.run(sql::ENDED_UPDATE, &rows.params()[2..]).await.map(drop)
}

/// What is announced, and what that changes of the counts.
#[derive(Default)]
struct Announcements<'a> {
    sheets: Rows<(i64, &'a [u8], i32)>,
    queues: Vec<i32>,
    counts: [Vec<i64>; COUNTS],
}

impl<'a> Announcements<'a> {
    fn of(pending: &'a PendingWrites) -> Result<Self, TransactionError> {
        let mut told = Announcements::default();
        for (place, sheet) in &pending.sheets.written {
            let count = i32::try_from(lines(*place, sheet)?.len()).unwrap_or(0);
            told.sheets.push((*place, sheet, count));
        }
        let deltas = pending.deltas.0.iter().filter(|(_, counts)| **counts != [0; COUNTS]);
        for (queue, counts) in deltas {
            told.queues.push(queue_column(*queue));
            told.counts.iter_mut().zip(counts).for_each(|(column, count)| column.push(*count));
        }
        Ok(told)
    }

    /// The values of a statement that announces, and of what else it does.
    fn and<'b>(&'b self, others: impl IntoIterator<Item = Vec<Param<'b>>>) -> Vec<Param<'b>> {
        let mut params = self.sheets.params();
        params.push(&self.queues);
        params.extend(self.counts.iter().map(|column| column as Param<'_>));
        params.extend(others.into_iter().flatten());
        params
    }
}

async fn announce(db: &PooledConnection, told: &Announcements<'_>) -> Result<(), TransactionError> {
    if told.sheets.is_empty() && told.queues.is_empty() {
        return Ok(());
    }
    db.run(sql::ANNOUNCE, &told.and([])).await.map(drop)
}

/// A claim's digest, and which jobs it was given.
type GivenRow = (i64, Vec<u8>);

fn given_rows(given: &[(i64, Vec<JobId>)]) -> Rows<GivenRow> {
    // Two claims may have one digest. They share its row, and whose a lease is stands in the job.
    let mut rows: BTreeMap<i64, Vec<u8>> = BTreeMap::new();
    for (digest, ids) in given {
        rows.entry(*digest).or_default().extend(ids.iter().flat_map(|id| id.to_bytes()));
    }
    rows.into_iter().collect()
}
