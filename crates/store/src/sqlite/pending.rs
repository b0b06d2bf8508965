//! The decisions of a transaction that are not written yet.
//!
//! Rows of one table are written together: the statement is prepared already, and adjacent rows lie
//! on the same pages. A job that changes more than once in a transaction is written once, in its
//! last state. A lookup of one job finds it here ([`PendingWrites::job`]); a query by an index
//! needs everything written first ([`Writer::written`](super::writer::Writer::written)).

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
    was: Option<RowLocation>,
    now: Arc<Stored>,
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
    pub(super) fn touch(&mut self, before: Option<&Stored>, now: Arc<Stored>) {
        let touched = self.jobs.entry(now.no);
        let touched = touched.or_insert_with(|| ChangedJob {
            was: before.map(|before| RowLocation::of(&before.job)),
            now: now.clone(),
        });
        touched.now = now;
    }

    /// The current state of a job, if it has changed since the last write.
    pub(super) fn job(&self, no: i64) -> Option<&Arc<Stored>> {
        self.jobs.get(&no).map(|touched| &touched.now)
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
        write_handed(db, &self.new)?;
        write_jobs(db, &self.jobs)?;
        self.outbox_pages.written.into_iter().try_for_each(|page| run(db, sql::OUTBOX_INSERT, page))
    }
}

fn write_handed(db: &Connection, new: &[New]) -> Result<()> {
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
    let (mut begun, mut moved, mut gone, mut ended) = (vec![], vec![], vec![], vec![]);
    for ChangedJob { was, now } in jobs.values() {
        let ends = now.job.status().is_ended();
        match was {
            Some(RowLocation::Live(was)) if !ends => {
                moved.push((was, &**now));
                continue;
            }
            Some(RowLocation::Live(_)) => gone.push(now.no),
            Some(RowLocation::Ended) => run(db, sql::ENDED_DELETE, [now.no])?,
            None => {}
        }
        if ends { ended.push(&**now) } else { begun.push(&**now) }
    }
    update_all(db, &moved)?;
    delete_all(db, &gone)?;
    insert_all(db, (sql::JOB_INSERT, sql::JOB_INSERT_16), &begun, insert_live)?;
    insert_all(db, (sql::ENDED_INSERT, sql::ENDED_INSERT_16), &ended, insert_ended)
}

/// Removes live jobs, adjacent numbers with one statement.
fn delete_all(db: &Connection, gone: &[i64]) -> Result<()> {
    let mut neighbours = gone.chunk_by(|one, next| one + 1 == *next);
    neighbours.try_for_each(|all| run(db, sql::JOBS_DELETE, [all[0], all[all.len() - 1]]))
}

fn insert_live(values: &mut Values<'_, '_>, now: &&Stored) -> Result<()> {
    let Columns { rank, run_at, expires_at, lease_until, claim, error } = Columns::of(&now.job);
    let Stored { no, queue, .. } = now;
    values.add(&[no, queue, &rank, &run_at, &expires_at, &lease_until, &claim, &error])?;
    values.write(|buffer| job_to_row_in(buffer, now.no, &now.job, &now.recent))
}

fn insert_ended(values: &mut Values<'_, '_>, now: &&Stored) -> Result<()> {
    let Stored { no, queue, job, .. } = now;
    let (status, keyed) = (status_number(job.status()), job.envelope.key.is_some());
    let kept_since = engine::kept_since(job).map(engine::Timestamp::unix_ms);
    values.add(&[no, queue, &status, &error_of(job), &keyed, &kept_since])?;
    values.write(|buffer| job_to_row_in(buffer, now.no, &now.job, &now.recent))
}

/// Changes live jobs in place. Writes only columns that can have changed: SQLite writes an index
/// whose column is named, changed or not.
fn update_all(db: &Connection, moved: &[(&Columns, &Stored)]) -> Result<()> {
    let mut states = Vec::new();
    for (was, now) in moved {
        let is = Columns::of(&now.job);
        let body = || job_to_row_in(Vec::new(), now.no, &now.job, &now.recent);
        let others = |of: &Columns| (of.rank, of.run_at, of.expires_at, of.claim, of.error);
        if others(was) == others(&is) {
            let values = (now.no, is.lease_until, body());
            run(db, sql::JOB_UPDATE_LEASE, values)?;
        } else if was.error == is.error {
            states.push((is, *now));
        } else {
            let Columns { rank, run_at, expires_at, lease_until, claim, error } = is;
            let values = (now.no, rank, run_at, expires_at, lease_until, claim, error, body());
            run(db, sql::JOB_UPDATE, values)?;
        }
    }
    insert_all(db, (sql::JOB_UPDATE_STATE, sql::JOB_UPDATE_STATE_16), &states, update_state)
}

fn update_state(values: &mut Values<'_, '_>, (is, now): &(Columns, &Stored)) -> Result<()> {
    let Stored { no, queue, .. } = now;
    let Columns { rank, run_at, expires_at, lease_until, claim, error: _ } = is;
    values.add(&[no, queue, rank, run_at, expires_at, lease_until, claim])?;
    values.write(|buffer| job_to_row_in(buffer, now.no, &now.job, &now.recent))
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
    let whole = rows.len() - rows.len() % sql::ROWS_AT_ONCE;
    let (together, alone) = rows.split_at(whole);
    insert_chunks(db, many, together.chunks(sql::ROWS_AT_ONCE), &bind)?;
    insert_chunks(db, one, alone.chunks(1), &bind)
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
