//! THE RAW LIMIT: what the same SQLite does on the same disk, in hand-written SQL without our code.
//!
//! It promises what we promise about the disk (a log, `synchronous=FULL`) and nothing else: no rules, no
//! batches shared among callers, no counters, announcements, listings or sealed rows. It is meant to be as fast
//! as one can be: statements are prepared once, ids and payloads are made before the clock starts, and a
//! commit inserts 1,000 jobs, claims 1,000 and completes the 1,000 that the commit before it claimed (a fifth
//! faster than three commits for these).

use crate::{
    Error,
    error::raw,
    house::{PAYLOAD_BYTES, payload},
};
use rusqlite::{Connection, Transaction, TransactionBehavior, config::DbConfig};
use std::{path::Path, time::Duration};

/// Jobs in a commit.
pub const RAW_BATCH: usize = 1_000;

/// What makes it fast; shown to whoever looks at the numbers. Beside these, one plan for each statement.
/// The log is moved when it has 64 MiB, which is also the most that our own leaves behind when the clock
/// stops. Moving it in a thread of its own, as we do, was no faster with commits as large as these.
pub const RAW_PRAGMAS: &str = "journal_mode=wal, synchronous=full, wal_autocheckpoint=16000, \
                               cache_size=-65536, temp_store=memory";

const TABLES: &str = "
create table job (
    no integer primary key,
    id blob not null unique,
    state integer not null,
    run_at integer not null,
    lease_until integer,
    token integer
) strict;
create index job_ready on job (run_at) where state = 0;
create table payload (no integer primary key, body blob not null) strict;
create table history (
    no integer not null,
    seq integer not null,
    state integer not null,
    at integer not null,
    primary key (no, seq)
) strict, without rowid;
";

const INSERT: &str = "insert into job (no, id, state, run_at) values (?1, ?2, 0, ?3)";
const INSERT_PAYLOAD: &str = "insert into payload (no, body) values (?1, ?2)";
const CLAIM: &str = "update job set state = 1, lease_until = ?1, token = ?2 where no in \
    (select no from job where state = 0 and run_at <= ?1 order by run_at, no limit ?3) returning no";
const COMPLETE: &str =
    "update job set state = 2, lease_until = null where no = ?1 and token = ?2 and state = 1";
const HISTORY: &str = "insert into history (no, seq, state, at) values (?1, ?2, ?3, ?4)";

/// Any moment will do, as long as it is as long as one.
const NOW_MS: i64 = 1_800_000_000_000;

/// The twin of a store.
pub(crate) struct Raw {
    db: Connection,
}

/// A job that is still to be handed over.
pub(crate) struct RawJob {
    no: i64,
    id: [u8; 16],
    payload: String,
}

/// What one commit claimed.
#[derive(Default)]
struct Batch {
    token: i64,
    jobs: Vec<i64>,
}

impl Raw {
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let open = || {
            let db = Connection::open(path)?;
            db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
            for pragma in RAW_PRAGMAS.split(", ") {
                // Some answer with a row, some do not.
                db.prepare(&format!("pragma {pragma}"))?.query([])?.next()?;
            }
            if !db.table_exists(None, "job")? {
                db.execute_batch(TABLES)?;
            }
            Ok(Raw { db })
        };
        open().map_err(raw("opening"))
    }

    /// Closed, which moves the log into the file, and opened again.
    pub(crate) fn reopened(self, path: &Path) -> Result<Self, Error> {
        drop(self);
        Self::open(path)
    }

    /// Inserts jobs, so many in a commit.
    pub(crate) fn submit(&mut self, jobs: &[RawJob], per_commit: usize) -> Result<(), Error> {
        for batch in jobs.chunks(per_commit) {
            self.commit(|tx| insert(tx, batch)).map_err(raw("inserting"))?;
        }
        Ok(())
    }

    /// Claims and completes all that wait.
    pub(crate) fn drain(&mut self, jobs: usize) -> Result<(), Error> {
        self.live(&[], jobs)
    }

    /// Whole lives of new jobs.
    pub(crate) fn lives(&mut self, jobs: &[RawJob]) -> Result<(), Error> {
        self.live(jobs, jobs.len())
    }

    /// One commit after another, each of which inserts, claims, and completes what the one before claimed:
    /// a claim is on the disk before its job is run.
    fn live(&mut self, new: &[RawJob], jobs: usize) -> Result<(), Error> {
        let (mut new, mut claimed, mut completed) = (new.chunks(RAW_BATCH), Batch::default(), 0);
        // One commit more than there are batches: the last only completes.
        for token in 0..=jobs.div_ceil(RAW_BATCH) {
            let token = i64::try_from(token).expect("far fewer commits");
            let (batch, before) = (new.next().unwrap_or_default(), std::mem::take(&mut claimed));
            completed += before.jobs.len();
            let step = |tx: &Transaction<'_>| {
                insert(tx, batch)?;
                complete(tx, &before)?;
                claim(tx, token)
            };
            claimed = self.commit(step).map_err(raw("a life"))?;
        }
        if completed == jobs {
            return Ok(());
        }
        Err(Error::Miscounted { what: "raw lives", expected: jobs, found: completed })
    }

    fn commit<T>(
        &mut self,
        step: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        let tx = self.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let done = step(&tx)?;
        tx.commit()?;
        Ok(done)
    }
}

fn insert(tx: &Transaction<'_>, jobs: &[RawJob]) -> rusqlite::Result<()> {
    let mut job = tx.prepare_cached(INSERT)?;
    let mut payload = tx.prepare_cached(INSERT_PAYLOAD)?;
    let mut history = tx.prepare_cached(HISTORY)?;
    for new in jobs {
        job.execute((new.no, &new.id[..], NOW_MS))?;
        payload.execute((new.no, new.payload.as_bytes()))?;
        history.execute((new.no, 1, 0, NOW_MS))?;
    }
    Ok(())
}

fn claim(tx: &Transaction<'_>, token: i64) -> rusqlite::Result<Batch> {
    let mut statement = tx.prepare_cached(CLAIM)?;
    let limit = i64::try_from(RAW_BATCH).expect("a thousand");
    let jobs = statement.query_map((NOW_MS, token, limit), |row| row.get(0))?;
    let jobs: Vec<i64> = jobs.collect::<Result<_, _>>()?;
    let mut history = tx.prepare_cached(HISTORY)?;
    for no in &jobs {
        history.execute((no, 2, 1, NOW_MS))?;
    }
    Ok(Batch { token, jobs })
}

fn complete(tx: &Transaction<'_>, batch: &Batch) -> rusqlite::Result<()> {
    let mut job = tx.prepare_cached(COMPLETE)?;
    let mut history = tx.prepare_cached(HISTORY)?;
    for no in &batch.jobs {
        job.execute((no, batch.token))?;
        history.execute((no, 3, 2, NOW_MS))?;
    }
    Ok(())
}

/// Jobs to be handed over, with ids like ours: in the order of time, and random within a millisecond.
pub(crate) fn raw_jobs(jobs: usize) -> Vec<RawJob> {
    let made = (1..=jobs).map(|number| {
        let no = i64::try_from(number).expect("far fewer jobs");
        let payload = payload(number, Duration::ZERO);
        debug_assert_eq!(payload.len(), PAYLOAD_BYTES);
        RawJob { no, id: id(number as u128), payload }
    });
    made.collect()
}

fn id(number: u128) -> [u8; 16] {
    const JOBS_PER_MS: u128 = 50;
    const SCATTER: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
    let random = number.wrapping_mul(SCATTER) >> 48;
    ((number / JOBS_PER_MS) << 80 | random).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(raw: &Raw, condition: &str) -> i64 {
        raw.db
            .query_row(&format!("select count(*) from {condition}"), [], |row| row.get(0))
            .unwrap()
    }

    #[test]
    fn a_raw_life_is_a_whole_life() {
        let folder = tempfile::tempdir().unwrap();
        let mut raw = Raw::open(&folder.path().join("lives")).unwrap();
        raw.lives(&raw_jobs(2_500)).unwrap();
        assert_eq!(count(&raw, "job where state = 2"), 2_500);
        assert_eq!((count(&raw, "payload"), count(&raw, "history")), (2_500, 7_500));

        let mut raw = Raw::open(&folder.path().join("apart")).unwrap();
        raw.submit(&raw_jobs(1_100), 64).unwrap();
        assert_eq!(count(&raw, "job where state = 0"), 1_100);
        raw.drain(1_100).unwrap();
        assert_eq!(count(&raw, "job where state = 2"), 1_100);
    }

    #[test]
    fn the_twin_is_as_durable_as_we_are() {
        let folder = tempfile::tempdir().unwrap();
        let raw = Raw::open(&folder.path().join("twin")).unwrap();
        let pragma =
            |name: &str| raw.db.query_row(&format!("pragma {name}"), [], |row| row.get(0)).unwrap();
        let full: i64 = pragma("synchronous");
        assert_eq!(full, 2);
        let mode: String = raw.db.query_row("pragma journal_mode", [], |row| row.get(0)).unwrap();
        assert_eq!(mode, "wal");
    }

    #[test]
    fn no_two_ids_are_the_same() {
        let ids: std::collections::BTreeSet<_> = (1..=100_000).map(id).collect();
        assert_eq!(ids.len(), 100_000);
    }
}
