//! What a transaction has decided and not written yet.
//!
//! Rows of one table are written together: the statement is at hand, and neighbours lie on the same
//! pages. A job that changes more than once in a transaction is written as it is at the end. Whoever
//! asks for one job finds it here ([`PendingWrites::job`]); whoever asks an index has everything written
//! first ([`Writer::written`](super::writer::Writer::written)).

use super::{
    body::{job_onto, onto, status_number},
    error::TransactionError,
    load::{Stored, run},
    outbox_page::OutboxPages,
    seal::{Kind, sealed_onto},
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
    /// The ids of those.
    ids: HashMap<JobId, i64>,
    pub(super) sheets: OutboxPages,
}

/// A job that was handed over.
struct New {
    stored: Arc<Stored>,
    payload: JsonText,
}

/// A job that has changed: how it stands in the file, and how it should.
struct ChangedJob {
    was: Option<RowLocation>,
    now: Arc<Stored>,
}

/// Where a job stands in the file.
#[derive(Clone, Copy)]
enum RowLocation {
    Live(Columns),
    Ended,
}

impl PendingWrites {
    pub(super) fn hand_over(&mut self, stored: Arc<Stored>, payload: JsonText) {
        self.ids.insert(stored.job.id(), stored.no);
        self.new.push(New { stored, payload });
    }

    /// Notes how a job should stand; `before` is how it stood.
    pub(super) fn touch(&mut self, before: Option<&Stored>, now: Arc<Stored>) {
        let touched = self.jobs.entry(now.no);
        let touched = touched.or_insert_with(|| ChangedJob {
            was: before.map(|before| RowLocation::of(&before.job)),
            now: now.clone(),
        });
        touched.now = now;
    }

    /// A job as it is now, if it has changed since everything was written.
    pub(super) fn job(&self, no: i64) -> Option<&Arc<Stored>> {
        self.jobs.get(&no).map(|touched| &touched.now)
    }

    /// The number of a job that was handed over since everything was written.
    pub(super) fn number(&self, id: JobId) -> Option<i64> {
        self.ids.get(&id).copied()
    }

    /// The greatest id among them.
    pub(super) fn newest_id(&self) -> Option<JobId> {
        self.new.iter().map(|new| new.stored.job.id()).max()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.new.is_empty() && self.sheets.written.is_empty()
    }

    /// Writes everything.
    pub(super) fn write(self, db: &Connection) -> Result<(), TransactionError> {
        write_handed(db, &self.new)?;
        write_jobs(db, &self.jobs)?;
        self.sheets.written.into_iter().try_for_each(|sheet| run(db, sql::OUTBOX_INSERT, sheet))
    }
}

fn write_handed(db: &Connection, new: &[New]) -> Result<(), TransactionError> {
    let statements = (sql::HANDED_INSERT, sql::HANDED_INSERT_16);
    insert_all(db, statements, new, |values, New { stored, payload }| {
        let no = stored.no;
        values.add(&[&no, &&stored.job.id().to_bytes()[..]])?;
        values.write(|paper| onto(paper, no, &*stored.job.envelope))?;
        values.write(|paper| sealed_onto(paper, Kind::Payload, no, payload.as_str().as_bytes()))
    })
}

/// Brings each job from where it stands in the file to where it should.
fn write_jobs(db: &Connection, jobs: &BTreeMap<i64, ChangedJob>) -> Result<(), TransactionError> {
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

/// Removes live jobs, neighbours together.
fn delete_all(db: &Connection, gone: &[i64]) -> Result<(), TransactionError> {
    let mut neighbours = gone.chunk_by(|one, next| one + 1 == *next);
    neighbours.try_for_each(|all| run(db, sql::JOBS_DELETE, [all[0], all[all.len() - 1]]))
}

fn insert_live(values: &mut Values<'_, '_>, now: &&Stored) -> Result<(), TransactionError> {
    let Columns { rank, run_at, expires_at, lease_until, claim, error } = Columns::of(&now.job);
    let Stored { no, queue, .. } = now;
    values.add(&[no, queue, &rank, &run_at, &expires_at, &lease_until, &claim, &error])?;
    values.write(|paper| job_onto(paper, now.no, &now.job, &now.recent))
}

fn insert_ended(values: &mut Values<'_, '_>, now: &&Stored) -> Result<(), TransactionError> {
    let Stored { no, queue, job, .. } = now;
    let (status, keyed) = (status_number(job.status()), job.envelope.key.is_some());
    let kept_since = engine::kept_since(job).map(engine::Timestamp::unix_ms);
    values.add(&[no, queue, &status, &error_of(job), &keyed, &kept_since])?;
    values.write(|paper| job_onto(paper, now.no, &now.job, &now.recent))
}

/// Changes live jobs where they are. Writes only what can have moved: an index whose column is named is
/// written, changed or not.
fn update_all(db: &Connection, moved: &[(&Columns, &Stored)]) -> Result<(), TransactionError> {
    let mut states = Vec::new();
    for (was, now) in moved {
        let is = Columns::of(&now.job);
        let body = || job_onto(Vec::new(), now.no, &now.job, &now.recent);
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

fn update_state(
    values: &mut Values<'_, '_>,
    (is, now): &(Columns, &Stored),
) -> Result<(), TransactionError> {
    let Stored { no, queue, .. } = now;
    let Columns { rank, run_at, expires_at, lease_until, claim, error: _ } = is;
    values.add(&[no, queue, rank, run_at, expires_at, lease_until, claim])?;
    values.write(|paper| job_onto(paper, now.no, &now.job, &now.recent))
}

/// The values of a statement, one after another.
pub(super) struct Values<'a, 'db> {
    statement: &'a mut CachedStatement<'db>,
    bound: usize,
    /// What bodies are written on: SQLite takes a copy.
    paper: Vec<u8>,
}

impl Values<'_, '_> {
    pub(super) fn add(&mut self, values: &[&dyn ToSql]) -> Result<(), TransactionError> {
        for value in values {
            self.bound += 1;
            self.statement.raw_bind_parameter(self.bound, value)?;
        }
        Ok(())
    }

    fn write(&mut self, body: impl FnOnce(Vec<u8>) -> Vec<u8>) -> Result<(), TransactionError> {
        self.paper = body(std::mem::take(&mut self.paper));
        self.bound += 1;
        Ok(self.statement.raw_bind_parameter(self.bound, &self.paper[..])?)
    }
}

/// Inserts rows, as many at once as a statement takes: most of what a statement costs is its beginning
/// and its end.
pub(super) fn insert_all<T>(
    db: &Connection,
    (one, many): (&str, &str),
    rows: &[T],
    bind: impl Fn(&mut Values<'_, '_>, &T) -> Result<(), TransactionError>,
) -> Result<(), TransactionError> {
    let whole = rows.len() - rows.len() % sql::ROWS_AT_ONCE;
    let (together, alone) = rows.split_at(whole);
    insert_chunks(db, many, together.chunks(sql::ROWS_AT_ONCE), &bind)?;
    insert_chunks(db, one, alone.chunks(1), &bind)
}

/// Runs the statement once for each chunk.
fn insert_chunks<'r, T: 'r>(
    db: &Connection,
    sql: &str,
    chunks: impl ExactSizeIterator<Item = &'r [T]>,
    bind: &impl Fn(&mut Values<'_, '_>, &T) -> Result<(), TransactionError>,
) -> Result<(), TransactionError> {
    if chunks.len() == 0 {
        return Ok(());
    }
    let mut statement = db.prepare_cached(sql)?;
    let mut paper = Vec::new();
    for chunk in chunks {
        let mut values = Values { statement: &mut statement, bound: 0, paper };
        chunk.iter().try_for_each(|row| bind(&mut values, row))?;
        paper = values.paper;
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
