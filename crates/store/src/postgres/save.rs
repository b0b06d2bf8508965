//! Writes what was decided: one statement for each table, sent one behind another in one round
//! trip.

use super::{
    Inner, audit, erase,
    error::{Result, TransactionError},
    locked,
    pending::{
        EndedRow, LIVE_ROW_CONSTANTS, LiveRow, PendingWrites, RowLocation, ended_row, live_row,
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
    inline_history::HistoryRow,
    outbox_page::entries,
};
use engine::{JobId, Timestamp};
use std::{collections::BTreeMap, mem};

impl Inner {
    /// Writes everything decided so far, except keys and counts, which the commit writes.
    pub(super) async fn write(
        &self,
        db: &PooledConnection,
        transaction: &mut Transaction,
    ) -> Result<()> {
        locked(&self.claim_cursors).note_queued(&transaction.pending);
        if transaction.pending.is_empty() {
            return Ok(());
        }
        let mut pending = mem::take(&mut transaction.pending);
        // Later pages begin behind these.
        transaction.first_event_seq += pending.event_count;
        transaction.pending.deltas = mem::take(&mut pending.deltas);
        transaction.pending.ended_keys = mem::take(&mut pending.ended_keys);
        write(db, &pending, &mem::take(&mut transaction.cached_rows), &[]).await?;
        records::write(db, &pending.records).await?;
        erase::erase(db, &pending.erased).await?;
        audit::append(db, &pending.audit_notes, transaction.now).await
    }
}

impl Transaction {
    /// Writes which job each key belongs to, and from when the windows of keys count.
    pub(super) async fn write_keys(&self, db: &PooledConnection) -> Result<()> {
        let keys =
            self.keys.iter().map(|((queue, name), key)| (queue_column(*queue), &**name, key));
        let free = keys.clone().filter(|(.., key)| key.holder.is_none());
        let free: Rows<_> = free.map(|(queue, name, _)| (queue, name)).collect();
        let reassigned = keys.filter_map(|(queue, name, key)| {
            let holder = key.holder.filter(|holder| *holder != key.stored_holder)?;
            Some((queue, name, to_uuid(holder)))
        });
        let reassigned: Rows<_> = reassigned.collect();
        tokio::try_join!(
            biased;
            db.put(sql::KEYS_SET, &reassigned),
            db.put(sql::KEYS_DROP, &free),
            db.put(sql::KEY_EXPIRIES_INSERT, &self.pending.ended_keys),
        )
        .map(drop)
    }
}

/// Writes the rows of jobs and what belongs to them. Rows of cached jobs must be as this node wrote
/// them.
///
/// Exactly one statement (`insert_jobs`, `end_jobs`, `update_live` or `insert_events`) carries the
/// outbox pages and the changes of the counts, so that they cost no statement of their own.
pub(super) async fn write(
    db: &PooledConnection,
    pending: &PendingWrites,
    cached_rows: &BTreeMap<i64, Xid>,
    granted: &[(i64, Vec<JobId>)],
) -> Result<()> {
    let rows = ChangedRows::of(pending);
    // If the batch ends exactly the cached jobs, `CACHED_JOBS_END` checks and deletes them.
    // Otherwise `CACHED_JOBS_LOCK` checks and locks them first, and `JOB_DELETE` deletes all: with
    // two deletes in one batch, rows would not be locked in the order of their numbers.
    let conditions: Rows<_> =
        cached_rows.iter().map(|(no, written_by)| (*no, *written_by)).collect();
    let (rows_to_lock, rows_to_delete) = if cached_rows.keys().eq(&rows.live_deletes) {
        (Rows::default(), conditions)
    } else {
        (conditions, Rows::default())
    };
    let live_deletes = if rows_to_delete.is_empty() { &rows.live_deletes[..] } else { &[] };
    let (claim_results, no_results) = (claim_result_rows(granted), Rows::default());
    let (event_rows, no_event_rows) = (EventRows::of(pending)?, EventRows::default());
    let inserts_jobs = !pending.new_jobs.is_empty() || !rows.live_inserts.is_empty();
    let ends_cached_jobs = !inserts_jobs && !rows_to_delete.is_empty();
    let starts_jobs = !inserts_jobs
        && !ends_cached_jobs
        && !claim_results.is_empty()
        && !rows.live_updates.is_empty();
    let event_rows_if = |this: bool| if this { &event_rows } else { &no_event_rows };
    let history = |(no, row): &(i64, HistoryRow)| {
        (*no, to_i64(row.entry.seq), row.event, to_row(*no, &row.entry))
    };
    let history: Rows<_> = pending.history.iter().map(history).collect();
    let payloads = pending.corrected_payloads.iter();
    let payloads: Rows<_> = payloads.map(|(no, payload)| (*no, payload.as_str())).collect();
    let steps = pending.steps.iter();
    let steps: Rows<_> =
        steps.map(|((no, name), step)| (*no, name.as_str(), to_row(*no, step))).collect();
    tokio::try_join!(
        biased;
        db.put(sql::CACHED_JOBS_LOCK, &rows_to_lock),
        insert_jobs(db, pending, &rows.live_inserts, event_rows_if(inserts_jobs)),
        update_live(db, &rows.live_updates, starts_jobs.then_some((&claim_results, &event_rows))),
        db.run_about(sql::JOB_DELETE, live_deletes),
        db.run_about(sql::ENDED_DELETE, &rows.ended_deletes),
        end_jobs(db, &rows_to_delete, &rows.ended_inserts, event_rows_if(ends_cached_jobs)),
        update_ended(db, &rows.ended_updates),
        db.put(sql::PAYLOADS_CORRECT, &payloads),
        db.put(sql::HISTORY_INSERT, &history),
        db.run_about(sql::STEPS_FORGET, &pending.steps_forgotten),
        db.put(sql::STEPS_PUT, &steps),
        insert_events(db, event_rows_if(!inserts_jobs && !ends_cached_jobs && !starts_jobs)),
        db.put(sql::CLAIM_RESULTS_PUT, if starts_jobs { &no_results } else { &claim_results }),
    )
    .map(drop)
}

/// The row changes that bring each job from its stored state to its new one: in `job` (live) and in
/// `job_ended`.
#[derive(Default)]
struct ChangedRows {
    live_inserts: Rows<LiveRow>,
    live_updates: Rows<LiveRow>,
    live_deletes: Vec<i64>,
    ended_deletes: Vec<i64>,
    ended_inserts: Rows<EndedRow>,
    ended_updates: Rows<EndedRow>,
}

impl ChangedRows {
    fn of(pending: &PendingWrites) -> Self {
        let mut rows = ChangedRows::default();
        for changed in pending.jobs.values() {
            let after = &*changed.after;
            match (changed.stored_in, RowLocation::of(&after.job)) {
                (None, RowLocation::Live) => rows.live_inserts.push(live_row(after)),
                (None, RowLocation::Ended) => rows.ended_inserts.push(ended_row(after)),
                (Some(RowLocation::Live), RowLocation::Live) => {
                    rows.live_updates.push(live_row(after))
                }
                (Some(RowLocation::Live), RowLocation::Ended) => {
                    rows.live_deletes.push(after.no);
                    rows.ended_inserts.push(ended_row(after));
                }
                (Some(RowLocation::Ended), RowLocation::Live) => {
                    rows.ended_deletes.push(after.no);
                    rows.live_inserts.push(live_row(after));
                }
                (Some(RowLocation::Ended), RowLocation::Ended) => {
                    rows.ended_updates.push(ended_row(after))
                }
            }
        }
        rows
    }
}

async fn insert_jobs(
    db: &PooledConnection,
    pending: &PendingWrites,
    live: &Rows<LiveRow>,
    event_rows: &EventRows<'_>,
) -> Result<()> {
    let submissions: Rows<_> = pending.new_jobs.iter().map(submission_row).collect();
    if submissions.is_empty() && live.is_empty() {
        return Ok(());
    }
    db.run(sql::JOBS_INSERT, &event_rows.followed_by([submissions.params(), live.params()])).await
}

/// Writes new jobs, and nothing else, with a predicted time and cached settings. Returns an outbox
/// position for a later batch.
pub(super) async fn fast_submit(
    db: &PooledConnection,
    pending: &PendingWrites,
    (now, settings): (Timestamp, i64),
) -> Result<i64> {
    let submissions: Rows<_> = pending.new_jobs.iter().map(submission_row).collect();
    // If all jobs were refused, no statement would check the prediction.
    if submissions.is_empty() || submissions.count() != pending.jobs.len() {
        return Err(TransactionError::StaleCache);
    }
    let (live_inserts, event_rows, now) =
        (ChangedRows::of(pending).live_inserts, EventRows::of(pending)?, now.unix_ms());
    let params = event_rows.followed_by([
        submissions.params(),
        live_inserts.params(),
        vec![&settings, &now],
    ]);
    Ok(db.row(sql::FAST_SUBMIT, &params, "a fast submit returned no row").await?.try_get(0)?)
}

/// Updates live jobs. If claims started all of them, the same statement writes what each claim got.
async fn update_live(
    db: &PooledConnection,
    rows: &Rows<LiveRow>,
    started: Option<(&Rows<ClaimResultRow>, &EventRows<'_>)>,
) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let own = rows.params().split_off(LIVE_ROW_CONSTANTS);
    match started {
        None => db.run(sql::JOB_UPDATE, &own).await,
        Some((claim_results, event_rows)) => {
            db.run(sql::JOBS_START, &event_rows.followed_by([own, claim_results.params()])).await
        }
    }
}

/// Writes jobs that have ended. The same statement deletes the live rows of cached jobs, which this
/// transaction has not locked.
async fn end_jobs(
    db: &PooledConnection,
    rows_to_delete: &Rows<(i64, Xid)>,
    rows: &Rows<EndedRow>,
    event_rows: &EventRows<'_>,
) -> Result<()> {
    if rows_to_delete.is_empty() {
        return db.put(sql::ENDED_INSERT, rows).await;
    }
    db.run(sql::CACHED_JOBS_END, &event_rows.followed_by([rows_to_delete.params(), rows.params()]))
        .await
}

async fn update_ended(db: &PooledConnection, rows: &Rows<EndedRow>) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    db.run(sql::ENDED_UPDATE, &rows.params()[2..]).await
}

/// The outbox pages of a transaction, and its changes of the counts.
#[derive(Default)]
struct EventRows<'a> {
    outbox_pages: Rows<(i64, &'a [u8], i32)>,
    queues: Vec<i32>,
    counts: [Vec<i64>; COUNTS],
}

impl<'a> EventRows<'a> {
    fn of(pending: &'a PendingWrites) -> Result<Self> {
        let mut event_rows = EventRows::default();
        for (event_seq, page) in &pending.outbox_pages.written {
            let count = i32::try_from(entries(*event_seq, page)?.len()).unwrap_or(0);
            event_rows.outbox_pages.push((*event_seq, page, count));
        }
        let deltas = pending.deltas.0.iter().filter(|(_, counts)| **counts != [0; COUNTS]);
        for (queue, counts) in deltas {
            event_rows.queues.push(queue_column(*queue));
            event_rows
                .counts
                .iter_mut()
                .zip(counts)
                .for_each(|(column, count)| column.push(*count));
        }
        Ok(event_rows)
    }

    /// The parameters of a statement that writes events, followed by its other parameters.
    fn followed_by<'b>(
        &'b self,
        others: impl IntoIterator<Item = Vec<Param<'b>>>,
    ) -> Vec<Param<'b>> {
        let mut params = self.outbox_pages.params();
        params.push(&self.queues);
        params.extend(self.counts.iter().map(|column| column as Param<'_>));
        params.extend(others.into_iter().flatten());
        params
    }
}

async fn insert_events(db: &PooledConnection, event_rows: &EventRows<'_>) -> Result<()> {
    if event_rows.outbox_pages.is_empty() && event_rows.queues.is_empty() {
        return Ok(());
    }
    db.run(sql::EVENTS_INSERT, &event_rows.followed_by([])).await
}

/// A claim's digest, and the jobs it got.
type ClaimResultRow = (i64, Vec<u8>);

fn claim_result_rows(granted: &[(i64, Vec<JobId>)]) -> Rows<ClaimResultRow> {
    // Two claims may have one digest. They share the row; the job itself says which claim holds its
    // lease.
    let mut rows: BTreeMap<i64, Vec<u8>> = BTreeMap::new();
    for (digest, ids) in granted {
        rows.entry(*digest).or_default().extend(ids.iter().flat_map(|id| id.to_bytes()));
    }
    rows.into_iter().collect()
}
