//! Writing what was decided: a statement for each table, one behind another, in one journey.

use super::{
    Inner, audit, erase,
    error::Trouble,
    pending::{EndedRows, HandedRows, LiveRows, Pending, Place, queue_column},
    pool::{Lent, Param},
    records, sql,
    transaction::{Key, Transaction},
    uuid::{Xid, uuids},
};
use crate::form::{
    body::{COUNTS, to_row},
    sheet::lines,
};
use engine::{JobId, Timestamp};
use std::{collections::BTreeMap, mem};
use tokio_postgres::types::{ToSql, Type};

impl Inner {
    /// Writes everything that was decided so far, but for keys and counts, which are written at the
    /// end. What has to happen with every write happens here.
    pub(super) async fn write(
        &self,
        db: &Lent,
        transaction: &mut Transaction,
    ) -> Result<(), Trouble> {
        self.lines().note(&transaction.pending);
        transaction.write(db).await
    }
}

impl Transaction {
    async fn write(&mut self, db: &Lent) -> Result<(), Trouble> {
        if self.pending.is_empty() {
            return Ok(());
        }
        // Sheets that follow begin behind these.
        self.place += self.pending.lines;
        let deltas = mem::take(&mut self.pending.deltas);
        let ended_keys = mem::take(&mut self.pending.ended_keys);
        let mut pending =
            mem::replace(&mut self.pending, Pending { deltas, ended_keys, ..Pending::default() });
        let erased = mem::take(&mut pending.erased);
        let recalled = mem::take(&mut self.recalled);
        write(db, &pending, &recalled, &Given::default()).await?;
        records::write(db, &pending.records).await?;
        erase::erase(db, &erased).await?;
        audit::note(db, &pending.notes, self.now).await
    }

    /// Writes whose the keys are, and from when their windows count.
    pub(super) async fn write_last(&self, db: &Lent) -> Result<(), Trouble> {
        tokio::try_join!(
            biased;
            set_keys(db, self),
            drop_keys(db, self),
            end_keys(db, self),
        )
        .map(drop)
    }
}

/// Writes the rows of jobs and what belongs to them. Those that were recalled must be as they were written. One of the
/// statements announces all of it.
pub(super) async fn write(
    db: &Lent,
    pending: &Pending,
    recalled: &BTreeMap<i64, Xid>,
    given: &Given,
) -> Result<(), Trouble> {
    let rows = Rows::of(pending);
    // Whoever waits for rows waits for them in the order of their numbers, so this is one statement or the other.
    let (held, removed) = if recalled.keys().eq(&rows.gone) {
        (Unheld::default(), Unheld::of(recalled))
    } else {
        (Unheld::of(recalled), Unheld::default())
    };
    let gone = if removed.no.is_empty() { &rows.gone[..] } else { &[] };
    let (told, nothing) = (Told::of(pending)?, Told::default());
    let begins = !pending.new.is_empty() || !rows.begun.no.is_empty();
    let ends = !begins && !removed.no.is_empty();
    let starts = !begins && !ends && !given.digest.is_empty() && !rows.moved.no.is_empty();
    let by = |this: bool| if this { &told } else { &nothing };
    tokio::try_join!(
        biased;
        hold(db, &held),
        begin(db, pending, &rows.begun, by(begins)),
        update_live(db, &rows.moved, starts.then_some((given, &told))),
        delete(db, sql::JOB_DELETE, gone),
        delete(db, sql::ENDED_DELETE, &rows.reopened),
        end(db, &removed, &rows.ended, by(ends)),
        update_ended(db, &rows.amended),
        history(db, pending),
        delete(db, sql::STEPS_FORGET, &pending.steps_forgotten),
        steps(db, pending),
        announce(db, by(!begins && !ends && !starts)),
        give(db, given, starts),
    )
    .map(drop)
}

/// Runs a statement where there is something to do.
async fn run(db: &Lent, sql: &str, params: &[Param<'_>], rows: usize) -> Result<(), Trouble> {
    if rows == 0 {
        return Ok(());
    }
    db.run(sql, params).await.map(drop)
}

/// Rows that are known by heart and held by nobody.
#[derive(Default)]
struct Unheld {
    no: Vec<i64>,
    by: Vec<Xid>,
}

impl Unheld {
    fn of(recalled: &BTreeMap<i64, Xid>) -> Self {
        let (no, by) = recalled.iter().unzip();
        Unheld { no, by }
    }
}

async fn hold(db: &Lent, rows: &Unheld) -> Result<(), Trouble> {
    let params: [Param<'_>; 2] = [(&rows.no, Type::INT8_ARRAY), (&rows.by, Type::XID_ARRAY)];
    run(db, sql::JOBS_KNOWN, &params, rows.no.len()).await
}

async fn delete(db: &Lent, sql: &str, numbers: &[i64]) -> Result<(), Trouble> {
    run(db, sql, &[(&numbers, Type::INT8_ARRAY)], numbers.len()).await
}

/// What each job's way from where it stands to where it should means for the tables.
#[derive(Default)]
struct Rows {
    begun: LiveRows,
    moved: LiveRows,
    gone: Vec<i64>,
    reopened: Vec<i64>,
    ended: EndedRows,
    amended: EndedRows,
}

impl Rows {
    fn of(pending: &Pending) -> Self {
        let mut rows = Rows::default();
        for touched in pending.jobs.values() {
            let now = &*touched.now;
            match (touched.was, Place::of(&now.job)) {
                (None, Place::Live) => rows.begun.add(now),
                (None, Place::Ended) => rows.ended.add(now),
                (Some(Place::Live), Place::Live) => rows.moved.add(now),
                (Some(Place::Live), Place::Ended) => {
                    rows.gone.push(now.no);
                    rows.ended.add(now);
                }
                (Some(Place::Ended), Place::Live) => {
                    rows.reopened.push(now.no);
                    rows.begun.add(now);
                }
                (Some(Place::Ended), Place::Ended) => rows.amended.add(now),
            }
        }
        rows
    }
}

async fn begin(
    db: &Lent,
    pending: &Pending,
    live: &LiveRows,
    told: &Told<'_>,
) -> Result<(), Trouble> {
    let handed = HandedRows::of(pending);
    let params = begun(&handed, live);
    run(db, sql::JOBS_BEGIN, &told.and(&params), handed.no.len() + live.no.len()).await
}

/// Writes new jobs, and nothing else, by a time that was foreseen and settings that are known. Gives a place for others.
pub(super) async fn hand_over(
    db: &Lent,
    pending: &Pending,
    (now, settings): (Timestamp, i64),
) -> Result<i64, Trouble> {
    let (handed, rows, told) = (HandedRows::of(pending), Rows::of(pending), Told::of(pending)?);
    // Where all were refused, nothing would prove that it was right to.
    if handed.no.is_empty() || handed.no.len() != pending.jobs.len() {
        return Err(Trouble::Changed);
    }
    let (begun, now) = (begun(&handed, &rows.begun), now.unix_ms());
    let mut params = told.and(&begun);
    params.extend::<[Param<'_>; 2]>([(&settings, Type::INT8), (&now, Type::INT8)]);
    let rows = db.rows(sql::HAND_OVER, &params).await?;
    let row = rows.first().ok_or(Trouble::Impossible("nothing came of a hand-over"))?;
    Ok(row.try_get(0)?)
}

fn begun<'a>(handed: &'a HandedRows<'_>, live: &'a LiveRows) -> [Param<'a>; 17] {
    [
        (&handed.no, Type::INT8_ARRAY),
        (&handed.id, Type::UUID_ARRAY),
        (&handed.queue, Type::INT4_ARRAY),
        (&handed.by_subject, Type::INT8_ARRAY),
        (&handed.by_correlation, Type::INT8_ARRAY),
        (&handed.by_parent, Type::INT8_ARRAY),
        (&handed.subject, Type::TEXT_ARRAY),
        (&handed.envelope, Type::BYTEA_ARRAY),
        (&handed.payload, Type::TEXT_ARRAY),
        (&live.no, Type::INT8_ARRAY),
        (&live.queue, Type::INT4_ARRAY),
        (&live.rank, Type::INT2_ARRAY),
        (&live.run_at, Type::INT8_ARRAY),
        (&live.expires_at, Type::INT8_ARRAY),
        (&live.lease_until, Type::INT8_ARRAY),
        (&live.error, Type::INT8_ARRAY),
        (&live.body, Type::BYTEA_ARRAY),
    ]
}

/// Where all of them were started by claims, it is noted by the same statement what those were
/// given.
async fn update_live(
    db: &Lent,
    rows: &LiveRows,
    started: Option<(&Given, &Told<'_>)>,
) -> Result<(), Trouble> {
    let params: [Param<'_>; 7] = [
        (&rows.no, Type::INT8_ARRAY),
        (&rows.rank, Type::INT2_ARRAY),
        (&rows.run_at, Type::INT8_ARRAY),
        (&rows.expires_at, Type::INT8_ARRAY),
        (&rows.lease_until, Type::INT8_ARRAY),
        (&rows.error, Type::INT8_ARRAY),
        (&rows.body, Type::BYTEA_ARRAY),
    ];
    let Some((given, told)) = started else {
        return run(db, sql::JOB_UPDATE, &params, rows.no.len()).await;
    };
    let mut all = told.and(&params);
    all.extend(given.params());
    run(db, sql::JOBS_START, &all, rows.no.len()).await
}

/// Writes jobs that have ended. Those of them that nobody holds are removed from where they were by the same statement.
async fn end(
    db: &Lent,
    removed: &Unheld,
    rows: &EndedRows,
    told: &Told<'_>,
) -> Result<(), Trouble> {
    let params: [Param<'_>; 9] = [
        (&removed.no, Type::INT8_ARRAY),
        (&removed.by, Type::XID_ARRAY),
        (&rows.no, Type::INT8_ARRAY),
        (&rows.queue, Type::INT4_ARRAY),
        (&rows.status, Type::INT2_ARRAY),
        (&rows.error, Type::INT8_ARRAY),
        (&rows.keyed, Type::BOOL_ARRAY),
        (&rows.kept_since, Type::INT8_ARRAY),
        (&rows.body, Type::BYTEA_ARRAY),
    ];
    if removed.no.is_empty() {
        return run(db, sql::ENDED_INSERT, &params[2..], rows.no.len()).await;
    }
    run(db, sql::JOBS_END_KNOWN, &told.and(&params), removed.no.len()).await
}

async fn update_ended(db: &Lent, rows: &EndedRows) -> Result<(), Trouble> {
    let params: [Param<'_>; 5] = [
        (&rows.no, Type::INT8_ARRAY),
        (&rows.status, Type::INT2_ARRAY),
        (&rows.error, Type::INT8_ARRAY),
        (&rows.kept_since, Type::INT8_ARRAY),
        (&rows.body, Type::BYTEA_ARRAY),
    ];
    run(db, sql::ENDED_UPDATE, &params, rows.no.len()).await
}

async fn history(db: &Lent, pending: &Pending) -> Result<(), Trouble> {
    let rows = &pending.history;
    let no: Vec<i64> = rows.iter().map(|row| row.no).collect();
    let seq: Vec<i64> = rows.iter().map(|row| column(row.entry.seq)).collect();
    let place: Vec<Option<i64>> = rows.iter().map(|row| row.place).collect();
    let body: Vec<Vec<u8>> = rows.iter().map(|row| to_row(row.no, &row.entry)).collect();
    let params: [Param<'_>; 4] = [
        (&no, Type::INT8_ARRAY),
        (&seq, Type::INT8_ARRAY),
        (&place, Type::INT8_ARRAY),
        (&body, Type::BYTEA_ARRAY),
    ];
    run(db, sql::HISTORY_INSERT, &params, no.len()).await
}

async fn steps(db: &Lent, pending: &Pending) -> Result<(), Trouble> {
    let no: Vec<i64> = pending.steps.keys().map(|(no, _)| *no).collect();
    let name: Vec<&str> = pending.steps.keys().map(|(_, name)| name.as_str()).collect();
    let body = pending.steps.iter().map(|((no, _), step)| to_row(*no, step));
    let body: Vec<Vec<u8>> = body.collect();
    let params: [Param<'_>; 3] =
        [(&no, Type::INT8_ARRAY), (&name, Type::TEXT_ARRAY), (&body, Type::BYTEA_ARRAY)];
    run(db, sql::STEPS_PUT, &params, no.len()).await
}

/// What is announced, and what that changes of the counts.
#[derive(Default)]
struct Told<'a> {
    place: Vec<i64>,
    sheet: Vec<&'a [u8]>,
    lines: Vec<i32>,
    queue: Vec<i32>,
    counts: [Vec<i64>; COUNTS],
}

impl<'a> Told<'a> {
    fn of(pending: &'a Pending) -> Result<Self, Trouble> {
        let mut told = Told::default();
        for (place, sheet) in &pending.sheets.written {
            told.place.push(*place);
            told.sheet.push(sheet);
            told.lines.push(i32::try_from(lines(*place, sheet)?.len()).unwrap_or(0));
        }
        let deltas = pending.deltas.0.iter().filter(|(_, counts)| **counts != [0; COUNTS]);
        for (queue, counts) in deltas {
            told.queue.push(queue_column(*queue));
            told.counts.iter_mut().zip(counts).for_each(|(column, count)| column.push(*count));
        }
        Ok(told)
    }

    /// The values of a statement that announces, and what else it does.
    fn and<'b>(&'b self, others: &[Param<'b>]) -> Vec<Param<'b>> {
        let mut params: Vec<Param<'b>> = vec![
            (&self.place, Type::INT8_ARRAY),
            (&self.sheet, Type::BYTEA_ARRAY),
            (&self.lines, Type::INT4_ARRAY),
            (&self.queue, Type::INT4_ARRAY),
        ];
        let counts = self.counts.iter();
        params.extend(counts.map(|column| (column as &(dyn ToSql + Sync), Type::INT8_ARRAY)));
        params.extend_from_slice(others);
        params
    }
}

async fn announce(db: &Lent, told: &Told<'_>) -> Result<(), Trouble> {
    run(db, sql::ANNOUNCE, &told.and(&[]), told.place.len() + told.queue.len()).await
}

/// Which jobs claims were given, by their digests.
#[derive(Default)]
pub(super) struct Given {
    digest: Vec<i64>,
    jobs: Vec<Vec<u8>>,
}

impl Given {
    pub(super) fn of(given: &[(i64, Vec<JobId>)]) -> Self {
        // Two claims may have one digest. They share its row, and whose a lease is stands in the job.
        let mut rows: BTreeMap<i64, Vec<u8>> = BTreeMap::new();
        for (digest, ids) in given {
            rows.entry(*digest).or_default().extend(ids.iter().flat_map(|id| id.to_bytes()));
        }
        let (digest, jobs) = rows.into_iter().unzip();
        Given { digest, jobs }
    }

    fn params(&self) -> [Param<'_>; 2] {
        [(&self.digest, Type::INT8_ARRAY), (&self.jobs, Type::BYTEA_ARRAY)]
    }
}

/// Remembers which jobs each claim was given, unless that was done.
async fn give(db: &Lent, given: &Given, done: bool) -> Result<(), Trouble> {
    run(db, sql::CLAIMS_GIVE, &given.params(), if done { 0 } else { given.digest.len() }).await
}

async fn set_keys(db: &Lent, transaction: &Transaction) -> Result<(), Trouble> {
    let moved = |key: &Key| key.holder.filter(|holder| *holder != key.row);
    let moved = transaction.keys.iter().filter_map(|(name, key)| Some((name, moved(key)?)));
    let moved: Vec<_> = moved.collect();
    let queue: Vec<i32> = moved.iter().map(|((queue, _), _)| queue_column(*queue)).collect();
    let name: Vec<&str> = moved.iter().map(|((_, name), _)| name.as_str()).collect();
    let id = uuids(moved.iter().map(|(_, id)| *id));
    let params: [Param<'_>; 3] =
        [(&queue, Type::INT4_ARRAY), (&name, Type::TEXT_ARRAY), (&id, Type::UUID_ARRAY)];
    run(db, sql::KEYS_SET, &params, moved.len()).await
}

async fn drop_keys(db: &Lent, transaction: &Transaction) -> Result<(), Trouble> {
    let free = transaction.keys.iter().filter(|(_, key)| key.holder.is_none());
    let (queue, name): (Vec<i32>, Vec<&str>) =
        free.map(|((queue, name), _)| (queue_column(*queue), name.as_str())).unzip();
    let params: [Param<'_>; 2] = [(&queue, Type::INT4_ARRAY), (&name, Type::TEXT_ARRAY)];
    run(db, sql::KEYS_DROP, &params, queue.len()).await
}

async fn end_keys(db: &Lent, transaction: &Transaction) -> Result<(), Trouble> {
    let ended = &transaction.pending.ended_keys;
    let queue: Vec<i32> = ended.iter().map(|key| queue_column(key.queue)).collect();
    let at: Vec<i64> = ended.iter().map(|key| key.ended_at).collect();
    let name: Vec<&str> = ended.iter().map(|key| key.name.as_str()).collect();
    let id = uuids(ended.iter().map(|key| key.id));
    let params: [Param<'_>; 4] = [
        (&queue, Type::INT4_ARRAY),
        (&at, Type::INT8_ARRAY),
        (&name, Type::TEXT_ARRAY),
        (&id, Type::UUID_ARRAY),
    ];
    run(db, sql::KEYS_ENDED, &params, ended.len()).await
}

pub(super) fn column(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
