//! THE RAW LIMIT: what the same SQLite does on the same disk, in hand-written SQL without our code.
//!
//! It promises what we promise about the disk (a log, `synchronous=FULL`) and remembers what the contract says of a
//! job's status and history, and nothing else: no rules, no batches shared among callers, no fences, counters,
//! announcements, listings or sealed rows. It is meant to be as fast as one can be: statements are prepared
//! once, and ids and payloads are made before the clock starts. A commit inserts 1,000 jobs, or claims 1,000, or
//! completes 1,000.

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
    tenant text not null,
    job_type text not null,
    correlation text not null,
    state integer not null,
    priority integer not null,
    run_at integer not null,
    attempt integer not null,
    max_attempts integer not null,
    created_at integer not null,
    started_at integer,
    completed_at integer,
    worker text,
    lease_until integer,
    token blob
) strict;
create index job_ready on job (job_type, priority, run_at) where state = 0;
create table payload (no integer primary key, body blob not null) strict;
create table history (
    no integer not null,
    seq integer not null,
    at integer not null,
    was integer,
    became integer not null,
    attempt integer not null,
    worker text,
    primary key (no, seq)
) strict, without rowid;
";

const INSERT: &str = "insert into job (no, id, tenant, job_type, correlation, state, priority, \
    run_at, attempt, max_attempts, created_at) values (?1, ?2, 'default', 'bench', ?3, 0, 4, ?4, 0, 3, ?4)";
const INSERT_PAYLOAD: &str = "insert into payload (no, body) values (?1, ?2)";
const READY: &str = "select no from job where state = 0 and job_type = 'bench' and priority = 4 \
    and run_at <= ?1 order by run_at, no limit ?2";
const CLAIM: &str = "update job set state = 1, attempt = attempt + 1, started_at = ?2, worker = ?3, \
    lease_until = ?2, token = ?4 where no = ?1 and state = 0";
const COMPLETE: &str = "update job set state = 2, completed_at = ?2, lease_until = null, token = null \
    where no = ?1 and token = ?3 and state = 1";
const HISTORY: &str = "insert into history (no, seq, at, was, became, attempt, worker) \
    values (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
const WORKER: &str = "worker-1";

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
    correlation: String,
    payload: String,
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
        let mut completed = 0;
        // Each round takes a batch, so there are as many as batches.
        for round in 0..jobs.div_ceil(RAW_BATCH) {
            completed += self.run_batch(round)?;
        }
        counted("raw jobs", jobs, completed)
    }

    /// Whole lives of new jobs.
    pub(crate) fn lives(&mut self, jobs: &[RawJob]) -> Result<(), Error> {
        let mut completed = 0;
        for (round, batch) in jobs.chunks(RAW_BATCH).enumerate() {
            self.commit(|tx| insert(tx, batch)).map_err(raw("inserting"))?;
            completed += self.run_batch(round)?;
        }
        counted("raw lives", jobs.len(), completed)
    }

    /// Claims a batch and completes it: a claim is on the disk before its job is run.
    fn run_batch(&mut self, round: usize) -> Result<usize, Error> {
        let token = (round as u128).to_be_bytes();
        let claimed = self.commit(|tx| claim(tx, &token)).map_err(raw("claiming"))?;
        self.commit(|tx| complete(tx, &claimed, &token)).map_err(raw("completing"))?;
        Ok(claimed.len())
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

fn counted(what: &'static str, expected: usize, found: usize) -> Result<(), Error> {
    if found == expected { Ok(()) } else { Err(Error::Miscounted { what, expected, found }) }
}

const NOBODY: Option<&str> = None;

fn insert(tx: &Transaction<'_>, jobs: &[RawJob]) -> rusqlite::Result<()> {
    let mut job = tx.prepare_cached(INSERT)?;
    let mut payload = tx.prepare_cached(INSERT_PAYLOAD)?;
    let mut history = tx.prepare_cached(HISTORY)?;
    for new in jobs {
        job.execute((new.no, &new.id[..], &new.correlation, NOW_MS))?;
        payload.execute((new.no, new.payload.as_bytes()))?;
        history.execute((new.no, 1, NOW_MS, None::<i64>, 0, 0, NOBODY))?;
    }
    Ok(())
}

fn claim(tx: &Transaction<'_>, token: &[u8]) -> rusqlite::Result<Vec<i64>> {
    let limit = i64::try_from(RAW_BATCH).expect("a thousand");
    let mut ready = tx.prepare_cached(READY)?;
    let jobs = ready.query_map((NOW_MS, limit), |row| row.get(0))?;
    let jobs: Vec<i64> = jobs.collect::<Result<_, _>>()?;
    let mut claim = tx.prepare_cached(CLAIM)?;
    let mut history = tx.prepare_cached(HISTORY)?;
    for no in &jobs {
        claim.execute((no, NOW_MS, WORKER, token))?;
        history.execute((no, 2, NOW_MS, Some(0), 1, 1, Some(WORKER)))?;
    }
    Ok(jobs)
}

fn complete(tx: &Transaction<'_>, jobs: &[i64], token: &[u8]) -> rusqlite::Result<()> {
    let mut complete = tx.prepare_cached(COMPLETE)?;
    let mut history = tx.prepare_cached(HISTORY)?;
    for no in jobs {
        complete.execute((no, NOW_MS, token))?;
        history.execute((no, 3, NOW_MS, Some(1), 2, 1, Some(WORKER)))?;
    }
    Ok(())
}

/// Jobs to be handed over, with ids like ours: in the order of time, and random within a millisecond.
pub(crate) fn raw_jobs(jobs: usize) -> Vec<RawJob> {
    let made = (1..=jobs).map(|number| {
        let no = i64::try_from(number).expect("far fewer jobs");
        let payload = payload(number, Duration::ZERO);
        debug_assert_eq!(payload.len(), PAYLOAD_BYTES);
        // As long as a UUID, and as random.
        let correlation = format!("{:036x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        RawJob { no, id: id(number as u128), correlation, payload }
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
