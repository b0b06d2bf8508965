//! Several connections in several threads on one disk.

use crate::workload::{Commit, DB, Mode, WAL_FULL, commit, compare, connect, create_tables};
use crash_disk::Disk;
use std::{
    io::Write,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

const COMMITS_EACH: i64 = 30;

#[test]
fn two_writers_a_reader_and_a_checkpointer_keep_every_commit() {
    concurrent_writers_keep_all("wal", WAL_FULL);
}

#[test]
fn a_crowd_around_a_rollback_journal_keeps_every_commit() {
    concurrent_writers_keep_all(
        "rollback journal",
        Mode { journal: "delete", synchronous: "extra" },
    );
}

#[track_caller]
fn concurrent_writers_keep_all(what: &str, mode: Mode) {
    let disk = Disk::new();
    let commits = write_concurrently(&disk, mode);
    for at in 0..=disk.ops() {
        assert_eq!(compare(&disk.after_kill(at), at, &commits), Ok(()), "killed at {at}");
        for seed in 0..3 {
            let found = disk.after_power_loss(at, seed);
            assert_eq!(compare(&found, at, &commits), Ok(()), "at {at}, seed {seed}");
        }
    }
    let line = format!("{what}: concurrent connections made {} commits", commits.len());
    writeln!(std::io::stderr(), "{line}, {} crash points", 4 * (disk.ops() + 1))
        .expect("it prints");
}

fn write_concurrently(disk: &Disk, mode: Mode) -> Vec<Commit> {
    create_tables(&connect(disk, mode));
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let writers = [1000, 2000].map(|first| scope.spawn(move || write(disk, mode, first)));
        scope.spawn(|| read(disk, mode, &done));
        scope.spawn(|| checkpoint(disk, mode, &done));
        // Joins all of them before unwrapping any: otherwise the others would wait for one that
        // failed.
        let ended = writers.map(|writer| writer.join());
        done.store(true, Ordering::SeqCst);
        ended.into_iter().flat_map(|commits| commits.expect("the writer wrote")).collect()
    })
}

fn write(disk: &Disk, mode: Mode, first: i64) -> Vec<Commit> {
    let db = connect(disk, mode);
    (first..first + COMMITS_EACH).map(|id| commit(disk, &db, id)).collect()
}

/// Every snapshot of a reader is complete, and never older than the one before.
fn read(disk: &Disk, mode: Mode, done: &AtomicBool) {
    let db = connect(disk, mode);
    let mut before = 0;
    while !done.load(Ordering::SeqCst) {
        let counts = "select (select count(*) from job), (select count(*) from history)";
        let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
        let (jobs, histories): (i64, i64) = db.query_row(counts, [], row).unwrap();
        assert_eq!(jobs, histories);
        assert!(jobs >= before);
        before = jobs;
        thread::yield_now();
    }
}

/// In a mode without a log this does nothing, repeatedly.
fn checkpoint(disk: &Disk, mode: Mode, done: &AtomicBool) {
    let db = connect(disk, mode);
    for mode in ["passive", "restart", "truncate"].iter().cycle() {
        db.query_row(&format!("pragma wal_checkpoint({mode})"), [], |_| Ok(())).unwrap();
        if done.load(Ordering::SeqCst) {
            return;
        }
        thread::yield_now();
    }
}

#[test]
fn a_second_writer_gets_database_busy() {
    let disk = Disk::new();
    let (a, b) = (connect(&disk, WAL_FULL), disk.open(DB).unwrap());
    create_tables(&a);
    b.busy_timeout(std::time::Duration::ZERO).unwrap();
    a.execute_batch("begin immediate").unwrap();
    let refused = b.execute_batch("begin immediate").unwrap_err();
    assert_eq!(refused.sqlite_error_code(), Some(rusqlite::ErrorCode::DatabaseBusy));
    a.execute_batch("commit").unwrap();
    b.execute_batch("begin immediate; commit").unwrap();
}

#[test]
fn a_reader_keeps_its_snapshot_while_another_commits() {
    let disk = Disk::new();
    let (a, b) = (connect(&disk, WAL_FULL), connect(&disk, WAL_FULL));
    create_tables(&a);
    let count = |db: &rusqlite::Connection| -> i64 {
        db.query_row("select count(*) from job", [], |row| row.get(0)).unwrap()
    };
    b.execute_batch("begin").unwrap();
    assert_eq!(count(&b), 0);
    commit(&disk, &a, 1);
    assert_eq!((count(&a), count(&b)), (1, 0));
    b.execute_batch("commit").unwrap();
    assert_eq!(count(&b), 1);
}

#[test]
fn closing_one_connection_keeps_the_wal_of_another() {
    let disk = Disk::new();
    let (a, b) = (connect(&disk, WAL_FULL), connect(&disk, WAL_FULL));
    create_tables(&a);
    let first = commit(&disk, &a, 1);
    let before = disk.files();
    drop(b);
    assert_eq!(disk.files(), before);
    assert_eq!(compare(&disk.after_power_loss_strict(disk.ops()), disk.ops(), &[first]), Ok(()));
}
