//! The raw limit of SQLite: a write-ahead log, `synchronous=FULL`, and one thread, as only one can
//! write.

use super::{NOW_MS, RAW_BATCH, RawJob, WORKER};
use crate::{Error, error::raw};
use rusqlite::{Connection, Transaction, TransactionBehavior, config::DbConfig};
use std::path::Path;

/// The settings that make it fast, beside one plan for each statement; shown with the numbers. A
/// checkpoint moves the log at 64 MiB, which is also the most that our store leaves when the clock
/// stops. A checkpoint thread, as our store has, was no faster with commits as large as these.
pub(crate) const RAW_PRAGMAS: &str = "journal_mode=wal, synchronous=full, wal_autocheckpoint=16000, \
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

pub(crate) struct RawSqlite {
    db: Connection,
}

impl RawSqlite {
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let open = || {
            let db = Connection::open(path)?;
            db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
            for pragma in RAW_PRAGMAS.split(", ") {
                // Some pragmas answer with a row, some do not.
                db.prepare(&format!("pragma {pragma}"))?.query([])?.next()?;
            }
            if !db.table_exists(None, "job")? {
                db.execute_batch(TABLES)?;
            }
            Ok(RawSqlite { db })
        };
        open().map_err(raw::<rusqlite::Error>("opening"))
    }

    /// Inserts `new`, `per_commit` jobs in a commit; completes `ending` jobs, and returns how many.
    pub(super) fn run(
        &mut self,
        new: &[RawJob],
        per_commit: usize,
        ending: usize,
    ) -> Result<usize, Error> {
        let (mut batches, mut completed) = (new.chunks(per_commit), 0);
        loop {
            let batch = batches.next();
            if let Some(batch) = batch {
                self.commit(|tx| insert(tx, batch)).map_err(raw("inserting"))?;
            }
            let more = if completed < ending { self.run_batch(completed)? } else { 0 };
            if batch.is_none() && more == 0 {
                return Ok(completed);
            }
            completed += more;
        }
    }

    /// Claims batch `number` and completes it: a claim is on disk before its job is run.
    fn run_batch(&mut self, number: usize) -> Result<usize, Error> {
        let token = (number as u128).to_be_bytes();
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

const NO_WORKER: Option<&str> = None;

fn insert(tx: &Transaction<'_>, jobs: &[RawJob]) -> rusqlite::Result<()> {
    let mut job = tx.prepare_cached(INSERT)?;
    let mut payload = tx.prepare_cached(INSERT_PAYLOAD)?;
    let mut history = tx.prepare_cached(HISTORY)?;
    for new in jobs {
        job.execute((new.no, &new.id[..], &new.correlation, NOW_MS))?;
        payload.execute((new.no, new.payload.as_bytes()))?;
        history.execute((new.no, 1, NOW_MS, None::<i64>, 0, 0, NO_WORKER))?;
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

#[cfg(test)]
mod tests {
    use super::{super::raw_jobs, *};

    fn count(raw: &RawSqlite, condition: &str) -> i64 {
        raw.db
            .query_row(&format!("select count(*) from {condition}"), [], |row| row.get(0))
            .unwrap()
    }

    #[test]
    fn a_raw_life_is_a_whole_life() {
        let folder = tempfile::tempdir().unwrap();
        let mut raw = RawSqlite::open(&folder.path().join("lives")).unwrap();
        assert_eq!(raw.run(&raw_jobs(2_500), RAW_BATCH, 2_500).unwrap(), 2_500);
        assert_eq!(count(&raw, "job where state = 2"), 2_500);
        assert_eq!((count(&raw, "payload"), count(&raw, "history")), (2_500, 7_500));

        let mut raw = RawSqlite::open(&folder.path().join("apart")).unwrap();
        raw.run(&raw_jobs(1_100), 64, 0).unwrap();
        assert_eq!(count(&raw, "job where state = 0"), 1_100);
        assert_eq!(raw.run(&[], RAW_BATCH, 1_100).unwrap(), 1_100);
        assert_eq!(count(&raw, "job where state = 2"), 1_100);
    }

    #[test]
    fn the_twin_is_as_durable_as_we_are() {
        let folder = tempfile::tempdir().unwrap();
        let raw = RawSqlite::open(&folder.path().join("twin")).unwrap();
        let pragma =
            |name: &str| raw.db.query_row(&format!("pragma {name}"), [], |row| row.get(0)).unwrap();
        let full: i64 = pragma("synchronous");
        assert_eq!(full, 2);
        let mode: String = raw.db.query_row("pragma journal_mode", [], |row| row.get(0)).unwrap();
        assert_eq!(mode, "wal");
    }
}
