//! A live disk that is full, fails, or rots.

use crate::workload::{
    Commit, DB, WAL_FULL, Wrong, commit, compare, connect, create_tables, try_commit,
};
use crash_disk::{Disk, Fault, FaultyOp};
use rusqlite::{Connection, ffi};

#[test]
fn a_full_disk_fails_commits_until_it_has_space_again() {
    let (disk, db) = prepared();
    let mut commits = vec![commit(&disk, &db, 1)];
    let used: u64 = disk.files().iter().map(|(_, size)| size).sum();
    disk.capacity(Some(used + 5000));
    let code = (2..200).find_map(|id| match try_commit(&db, id) {
        Ok(()) => {
            commits.push(Commit { id, begun: 0, done: disk.ops() });
            None
        }
        Err(error) => Some(extended_code(&error)),
    });
    assert_eq!(code, Some(ffi::SQLITE_FULL));
    assert!(disk.files().iter().map(|(_, size)| size).sum::<u64>() <= used + 5000);
    roll_back(&db);
    disk.capacity(None);
    commits.push(commit(&disk, &db, 1000));
    assert_eq!(compare(&disk.after_power_loss_strict(disk.ops()), disk.ops(), &commits), Ok(()));
}

#[test]
fn a_failed_sync_fails_its_commit_and_loses_no_other() {
    let (disk, db) = prepared();
    let first = commit(&disk, &db, 1);
    disk.fail(Fault { op: FaultyOp::Sync, nth: 1, code: ffi::SQLITE_IOERR_FSYNC });
    let error = try_commit(&db, 2).unwrap_err();
    assert_eq!(extended_code(&error), ffi::SQLITE_IOERR_FSYNC);
    roll_back(&db);
    let third = commit(&disk, &db, 3);
    for seed in 0..50 {
        let found = disk.after_power_loss(disk.ops(), seed);
        assert_eq!(compare(&found, disk.ops(), &[first, third]), Ok(()), "seed {seed}");
    }
}

#[test]
fn a_failed_write_and_a_failed_read_come_through() {
    let (disk, db) = prepared();
    disk.fail(Fault { op: FaultyOp::Write, nth: 2, code: ffi::SQLITE_IOERR_WRITE });
    assert_eq!(extended_code(&try_commit(&db, 1).unwrap_err()), ffi::SQLITE_IOERR_WRITE);
    roll_back(&db);
    commit(&disk, &db, 2);
    let other = connect(&disk, WAL_FULL);
    disk.fail(Fault { op: FaultyOp::Read, nth: 1, code: ffi::SQLITE_IOERR_READ });
    let error = other.query_row("select count(*) from job", [], |_| Ok(())).unwrap_err();
    assert_eq!(extended_code(&error), ffi::SQLITE_IOERR_READ);
}

#[test]
fn a_bit_that_flips_is_found_again_in_every_copy() {
    let (disk, db) = prepared();
    commit(&disk, &db, 1);
    drop(db);
    let before = disk.contents(DB).unwrap();
    // The type byte of the second page: there is no type 15.
    disk.flip_bit(DB, 4096, 1);
    let killed = disk.after_kill(disk.ops());
    for copy in [&killed, &disk.after_power_loss_strict(disk.ops())] {
        assert_eq!((before[4096], copy.contents(DB).unwrap()[4096]), (13, 15));
    }
    // The other copy is sound: the deletion of the log was not synced, so the log is back and has
    // the page.
    assert!(matches!(compare(&killed, 0, &[]), Err(Wrong::Corrupt(_))));
}

#[test]
fn a_file_that_was_cut_is_corrupt_and_one_that_was_copied_is_not() {
    let (disk, db) = prepared();
    let first = commit(&disk, &db, 1);
    drop(db);
    let copy = Disk::holding([(DB, disk.contents(DB).unwrap())]);
    assert_eq!(compare(&copy, disk.ops(), &[first]), Ok(()));
    copy.cut(DB, 8192);
    assert!(matches!(compare(&copy, disk.ops(), &[first]), Err(Wrong::Corrupt(_))));
}

fn prepared() -> (Disk, Connection) {
    let disk = Disk::new();
    let db = connect(&disk, WAL_FULL);
    create_tables(&db);
    (disk, db)
}

/// SQLite rolls back by itself after some errors and not after others.
fn roll_back(db: &Connection) {
    if !db.is_autocommit() {
        db.execute_batch("rollback").unwrap();
    }
}

fn extended_code(error: &rusqlite::Error) -> i32 {
    error.sqlite_error().expect("an error of sqlite").extended_code
}
