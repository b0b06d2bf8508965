//! Several connections in several threads on one disk.

use crate::story::{Commit, DB, WAL_FULL, commit, connect, create_tables, judge};
use crash_disk::Disk;
use std::{
    io::Write,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

const COMMITS_EACH: i64 = 30;

#[test]
fn two_writers_a_reader_and_a_checkpointer_keep_every_commit() {
    let disk = Disk::new();
    let commits = crowd(&disk);
    for at in 0..=disk.ops() {
        assert_eq!(judge(&disk.after_kill(at), at, &commits), Ok(()), "killed at {at}");
        for seed in 0..3 {
            let found = disk.after_power_loss(at, seed);
            assert_eq!(judge(&found, at, &commits), Ok(()), "at {at}, seed {seed}");
        }
    }
    let line = format!("two writers: {} commits, {} moments", commits.len(), disk.ops() + 1);
    writeln!(std::io::stderr(), "{line}, 4 crash points each").expect("it prints");
}

fn crowd(disk: &Disk) -> Vec<Commit> {
    create_tables(&connect(disk, WAL_FULL));
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let writers = [1000, 2000].map(|first| scope.spawn(move || write(disk, first)));
        scope.spawn(|| read(disk, &done));
        scope.spawn(|| checkpoint(disk, &done));
        let commits = writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect();
        done.store(true, Ordering::SeqCst);
        commits
    })
}

fn write(disk: &Disk, first: i64) -> Vec<Commit> {
    let db = connect(disk, WAL_FULL);
    (first..first + COMMITS_EACH).map(|id| commit(disk, &db, id)).collect()
}

/// Whatever a reader sees is whole, and never less than it saw before.
fn read(disk: &Disk, done: &AtomicBool) {
    let db = connect(disk, WAL_FULL);
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

fn checkpoint(disk: &Disk, done: &AtomicBool) {
    let db = connect(disk, WAL_FULL);
    for mode in ["passive", "restart", "truncate"].iter().cycle() {
        db.query_row(&format!("pragma wal_checkpoint({mode})"), [], |_| Ok(())).unwrap();
        if done.load(Ordering::SeqCst) {
            return;
        }
        thread::yield_now();
    }
}

#[test]
fn a_second_writer_is_told_that_the_database_is_busy() {
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
