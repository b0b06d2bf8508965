//! The decisions of a transaction that are not written yet.
//!
//! Rows of one table are written together: the statement is prepared already, and adjacent rows lie
//! on the same pages. A job that changes more than once in a transaction is written once, in its
//! last state. A lookup of one job finds it here ([`PendingWrites::job`]); a query by an index
//! needs everything written first ([`Writer::flushed_db`](super::writer::Writer::flushed_db)).

use super::{
    body::{job_to_row_in, status_number, to_row_in},
    error::Result,
    load::{Stored, run},
    outbox_page::OutboxPages,
    seal::{Kind, seal_in},
    sql,
};
use crate::codec::stored::{Columns, error_of};
pub(super) use crate::codec::stored::{claim_of, rank_of};
use engine::{Job, JobId, JsonText};
use rusqlite::{CachedStatement, Connection, ToSql};
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

#[derive(Default)]
pub(super) struct PendingWrites {
    jobs: BTreeMap<i64, ChangedJob>,
    new: Vec<New>,
    /// The numbers of the new jobs, by id.
    ids: HashMap<JobId, i64>,
    pub(super) outbox_pages: OutboxPages,
}

/// A submitted job.
struct New {
    stored: Arc<Stored>,
    payload: JsonText,
}

/// A job that has changed: its row in the file, and its new state.
struct ChangedJob {
    row_before: Option<RowLocation>,
    after: Arc<Stored>,
}

/// In which table a job's row is.
#[derive(Clone, Copy)]
enum RowLocation {
    Live(Columns),
    Ended,
}

impl PendingWrites {
    pub(super) fn add_submission(&mut self, stored: Arc<Stored>, payload: JsonText) {
        self.ids.insert(stored.job.id(), stored.no);
        self.new.push(New { stored, payload });
    }

    /// Records the new state of a job; `before` is its old one.
    pub(super) fn add_change(&mut self, before: Option<&Stored>, after: Arc<Stored>) {
        let changed = self.jobs.entry(after.no).or_insert_with(|| ChangedJob {
            row_before: before.map(|before| RowLocation::of(&before.job)),
            after: after.clone(),
        });
        changed.after = after;
    }

    /// The current state of a job, if it has changed since the last write.
    pub(super) fn job(&self, no: i64) -> Option<&Arc<Stored>> {
        self.jobs.get(&no).map(|changed| &changed.after)
    }

    /// The number of a job that was submitted since the last write.
    pub(super) fn number(&self, id: JobId) -> Option<i64> {
        self.ids.get(&id).copied()
    }

    /// The greatest id of the new jobs.
    pub(super) fn newest_id(&self) -> Option<JobId> {
        self.new.iter().map(|new| new.stored.job.id()).max()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.new.is_empty() && self.outbox_pages.written.is_empty()
    }

    pub(super) fn write(self, db: &Connection) -> Result<()> {
        write_submissions(db, &self.new)?;
        write_jobs(db, &self.jobs)?;
        self.outbox_pages.written.into_iter().try_for_each(|page| run(db, sql::OUTBOX_INSERT, page))
    }
}

fn write_submissions(db: &Connection, new: &[New]) -> Result<()> {
    let statements = (sql::SUBMISSION_INSERT, sql::SUBMISSION_INSERT_16);
    insert_all(db, statements, new, |values, New { stored, payload }| {
        let no = stored.no;
        values.add(&[&no, &&stored.job.id().to_bytes()[..]])?;
        values.write(|buffer| to_row_in(buffer, no, &*stored.job.envelope))?;
        values.write(|buffer| seal_in(buffer, Kind::Payload, no, payload.as_str().as_bytes()))
    })
}

/// Moves each job from its row in the file to its new state.
fn write_jobs(db: &Connection, jobs: &BTreeMap<i64, ChangedJob>) -> Result<()> {
    let (mut inserted, mut updated, mut deleted, mut ended) = (vec![], vec![], vec![], vec![]);
    for ChangedJob { row_before, after } in jobs.values() {
        let is_ended = after.job.status().is_ended();
        match row_before {
            Some(RowLocation::Live(columns)) if !is_ended => {
                updated.push((columns, &**after));
                continue;
            }
            Some(RowLocation::Live(_)) => deleted.push(after.no),
            Some(RowLocation::Ended) => run(db, sql::ENDED_DELETE, [after.no])?,
            None => {}
        }
        if is_ended { ended.push(&**after) } else { inserted.push(&**after) }
    }
    update_all(db, &updated)?;
    delete_all(db, &deleted)?;
    insert_all(db, (sql::JOB_INSERT, sql::JOB_INSERT_16), &inserted, insert_live)?;
    insert_all(db, (sql::ENDED_INSERT, sql::ENDED_INSERT_16), &ended, insert_ended)
}

/// Removes live jobs, adjacent numbers with one statement.
fn delete_all(db: &Connection, deleted: &[i64]) -> Result<()> {
    let mut runs = deleted.chunk_by(|number, next| number + 1 == *next);
    runs.try_for_each(|run_of| run(db, sql::JOBS_DELETE, [run_of[0], run_of[run_of.len() - 1]]))
}

fn insert_live(values: &mut Values<'_, '_>, after: &&Stored) -> Result<()> {
    let columns = Columns::of(&after.job);
    let Columns { rank, run_at, expires_at, lease_until, claim, error, child_of, awaits } = columns;
    let Stored { no, queue, .. } = after;
    values.add(&[no, queue, &rank, &run_at, &expires_at, &lease_until, &claim, &error])?;
    values.add(&[&child_of, &awaits])?;
    values.write(|buffer| job_to_row_in(buffer, after.no, &after.job, &after.recent))
}

fn insert_ended(values: &mut Values<'_, '_>, after: &&Stored) -> Result<()> {
    let Stored { no, queue, job, .. } = after;
    let (status, keyed) = (status_number(job.status()), job.envelope.key.is_some());
    let kept_since = engine::kept_since(job).map(engine::Timestamp::unix_ms);
    values.add(&[no, queue, &status, &error_of(job), &keyed, &kept_since])?;
    values.write(|buffer| job_to_row_in(buffer, after.no, &after.job, &after.recent))
}

/// Changes live jobs in place. Writes only columns that can have changed: SQLite writes an index
/// whose column is named, changed or not.
fn update_all(db: &Connection, updated: &[(&Columns, &Stored)]) -> Result<()> {
    let mut states = Vec::new();
    for (before, after) in updated {
        let columns = Columns::of(&after.job);
        let body = || job_to_row_in(Vec::new(), after.no, &after.job, &after.recent);
        let except_lease =
            |of: &Columns| (of.rank, of.run_at, of.expires_at, of.claim, of.error, of.awaits);
        if except_lease(before) == except_lease(&columns) {
            let values = (after.no, columns.lease_until, body());
            run(db, sql::JOB_UPDATE_LEASE, values)?;
        } else if (before.error, before.awaits) == (columns.error, columns.awaits) {
            states.push((columns, *after));
        } else {
            let Columns { rank, run_at, expires_at, lease_until, claim, error, awaits, .. } =
                columns;
            let (no, body) = (after.no, body());
            let values = (no, rank, run_at, expires_at, lease_until, claim, error, awaits, body);
            run(db, sql::JOB_UPDATE, values)?;
        }
    }
    insert_all(db, (sql::JOB_UPDATE_STATE, sql::JOB_UPDATE_STATE_16), &states, update_state)
}

fn update_state(values: &mut Values<'_, '_>, (columns, after): &(Columns, &Stored)) -> Result<()> {
    let Stored { no, queue, .. } = after;
    let Columns { rank, run_at, expires_at, lease_until, claim, .. } = columns;
    values.add(&[no, queue, rank, run_at, expires_at, lease_until, claim])?;
    values.write(|buffer| job_to_row_in(buffer, after.no, &after.job, &after.recent))
}

/// The values of a statement, one after another.
pub(super) struct Values<'a, 'db> {
    statement: &'a mut CachedStatement<'db>,
    bound: usize,
    /// A buffer that row bodies are encoded into: SQLite copies it.
    buffer: Vec<u8>,
}

impl Values<'_, '_> {
    pub(super) fn add(&mut self, values: &[&dyn ToSql]) -> Result<()> {
        for value in values {
            self.bound += 1;
            self.statement.raw_bind_parameter(self.bound, value)?;
        }
        Ok(())
    }

    fn write(&mut self, body: impl FnOnce(Vec<u8>) -> Vec<u8>) -> Result<()> {
        self.buffer = body(std::mem::take(&mut self.buffer));
        self.bound += 1;
        Ok(self.statement.raw_bind_parameter(self.bound, &self.buffer[..])?)
    }
}

/// Inserts rows, as many per statement as it takes: most of a statement's cost is its start and its
/// end.
pub(super) fn insert_all<T>(
    db: &Connection,
    (one, many): (&str, &str),
    rows: &[T],
    bind: impl Fn(&mut Values<'_, '_>, &T) -> Result<()>,
) -> Result<()> {
    let in_chunks = rows.len() - rows.len() % sql::ROWS_AT_ONCE;
    let (chunks, rest) = rows.split_at(in_chunks);
    insert_chunks(db, many, chunks.chunks(sql::ROWS_AT_ONCE), &bind)?;
    insert_chunks(db, one, rest.chunks(1), &bind)
}

fn insert_chunks<'r, T: 'r>(
    db: &Connection,
    sql: &str,
    chunks: impl ExactSizeIterator<Item = &'r [T]>,
    bind: &impl Fn(&mut Values<'_, '_>, &T) -> Result<()>,
) -> Result<()> {
    if chunks.len() == 0 {
        return Ok(());
    }
    let mut statement = db.prepare_cached(sql)?;
    let mut buffer = Vec::new();
    for chunk in chunks {
        let mut values = Values { statement: &mut statement, bound: 0, buffer };
        chunk.iter().try_for_each(|row| bind(&mut values, row))?;
        buffer = values.buffer;
        statement.raw_execute()?;
    }
    Ok(())
}

impl RowLocation {
    fn of(job: &Job) -> Self {
        if job.status().is_ended() {
            RowLocation::Ended
        } else {
            RowLocation::Live(Columns::of(job))
        }
    }
}
