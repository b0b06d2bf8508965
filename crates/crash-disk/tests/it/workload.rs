//! A workload that records between which operations of the disk each commit lies.

use crash_disk::Disk;
use rusqlite::{Connection, OptionalExtension};
use std::{collections::BTreeSet, time::Duration};

pub(crate) const DB: &str = "jobs.db";

/// How a connection is set up.
#[derive(Clone, Copy)]
pub(crate) struct Mode {
    pub(crate) journal: &'static str,
    pub(crate) synchronous: &'static str,
}

pub(crate) const WAL_FULL: Mode = Mode { journal: "wal", synchronous: "full" };
pub(crate) const WAL_NORMAL: Mode = Mode { journal: "wal", synchronous: "normal" };

/// One transaction: it writes row `id` in two tables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Commit {
    pub(crate) id: i64,
    /// How many operations the disk had seen when it began.
    pub(crate) begun: usize,
    /// How many it had seen when COMMIT returned.
    pub(crate) done: usize,
}

/// What is wrong with a disk after a crash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// SQLite reports an error.
    Corrupt(String),
    /// An acknowledged commit is missing.
    Lost(i64),
    /// A row is there before its commit began.
    Early(i64),
    /// A transaction is there in part.
    Partial(i64),
}

pub(crate) fn connect(disk: &Disk, mode: Mode) -> Connection {
    let db = disk.open(DB).unwrap();
    set_up(&db, mode).unwrap();
    db
}

fn set_up(db: &Connection, mode: Mode) -> rusqlite::Result<()> {
    db.busy_timeout(Duration::from_secs(20))?;
    db.execute_batch(&format!(
        // A checkpoint after a few pages: most failures happen around them.
        "pragma journal_mode = {}; pragma synchronous = {}; pragma wal_autocheckpoint = 12;",
        mode.journal, mode.synchronous
    ))
}

pub(crate) fn create_tables(db: &Connection) {
    db.execute_batch(
        "begin;
         create table job (id integer primary key, payload blob not null);
         create table history (job integer not null unique, word text not null);
         create index history_word on history (word, job);
         commit;",
    )
    .unwrap();
}

/// Commits row `id`, and records when.
pub(crate) fn commit(disk: &Disk, db: &Connection, id: i64) -> Commit {
    let begun = disk.ops();
    try_commit(db, id).unwrap();
    Commit { id, begun, done: disk.ops() }
}

pub(crate) fn try_commit(db: &Connection, id: i64) -> rusqlite::Result<()> {
    let payload_size = 300 + (id * 977) % 6000;
    db.execute_batch(&format!(
        "begin immediate;
         insert into job values ({id}, zeroblob({payload_size}));
         insert into history values ({id}, 'submitted {id}');
         commit;"
    ))
}

/// Twenty commits, with checkpoints, a truncated log and a reopened database between them.
pub(crate) fn run_workload(disk: &Disk, mode: Mode) -> Vec<Commit> {
    let db = connect(disk, mode);
    create_tables(&db);
    let mut commits: Vec<Commit> = (0..12).map(|id| commit(disk, &db, id)).collect();
    if mode.journal == "wal" {
        db.query_row("pragma wal_checkpoint(truncate)", [], |_| Ok(())).unwrap();
    }
    commits.push(commit(disk, &db, 12));
    drop(db);
    let db = connect(disk, mode);
    commits.extend((13..20).map(|id| commit(disk, &db, id)));
    commits
}

/// Opens a disk that crashed after `at` operations, and compares it with the commits.
pub(crate) fn compare(found: &Disk, at: usize, commits: &[Commit]) -> Result<(), Wrong> {
    let (jobs, histories) = rows(found).map_err(|error| Wrong::Corrupt(error.to_string()))?;
    if let Some(half) = jobs.symmetric_difference(&histories).next() {
        return Err(Wrong::Partial(*half));
    }
    for commit in commits {
        let exists = jobs.contains(&commit.id);
        if commit.done <= at && !exists {
            return Err(Wrong::Lost(commit.id));
        }
        if commit.begun >= at && exists {
            return Err(Wrong::Early(commit.id));
        }
    }
    Ok(())
}

type Ids = BTreeSet<i64>;

fn rows(found: &Disk) -> rusqlite::Result<(Ids, Ids)> {
    let db = found.open(DB)?;
    let verdict: String = db.query_row("pragma integrity_check", [], |row| row.get(0))?;
    if verdict != "ok" {
        return Err(rusqlite::Error::InvalidColumnName(verdict));
    }
    let has_table = "select 1 from sqlite_schema where name = 'job'";
    if db.query_row(has_table, [], |_| Ok(())).optional()?.is_none() {
        return Ok(Default::default());
    }
    Ok((ids(&db, "select id from job")?, ids(&db, "select job from history")?))
}

fn ids(db: &Connection, sql: &str) -> rusqlite::Result<Ids> {
    db.prepare(sql)?.query_map([], |row| row.get(0))?.collect()
}
