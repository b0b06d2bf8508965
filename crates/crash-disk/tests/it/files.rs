//! The other things that SQLite does with files: copies, scratch files, and disks that come and go.

use crate::workload::{DB, WAL_FULL, commit, compare, connect, create_tables, run_workload};
use crash_disk::Disk;

#[test]
fn vacuum_into_makes_a_durable_copy_on_the_same_disk() {
    let disk = Disk::new();
    let commits = run_workload(&disk, WAL_FULL);
    let db = connect(&disk, WAL_FULL);
    db.execute("vacuum into ?1", [disk.path("copy.db")]).unwrap();
    let after = disk.after_power_loss_strict(disk.ops());
    let copy = Disk::holding([(DB, after.contents("copy.db").unwrap())]);
    assert_eq!(compare(&copy, disk.ops(), &commits), Ok(()));
    let again = db.execute("vacuum into ?1", [disk.path("copy.db")]).unwrap_err();
    assert!(again.to_string().contains("already exists"), "{again}");
}

#[test]
fn temporary_files_are_not_in_the_disk_log() {
    let disk = Disk::new();
    let db = connect(&disk, WAL_FULL);
    db.execute_batch("pragma temp_store = file; pragma cache_size = 5").unwrap();
    let before = disk.ops();
    db.execute_batch(
        "create temp table t as
             with recursive n(x) as (select 1 union all select x + 1 from n where x < 5000)
             select x, hex(zeroblob(50)) as y from n;
         create index temp.t_y on t (y, x desc);",
    )
    .unwrap();
    let count: i64 = db.query_row("select count(distinct x) from t", [], |r| r.get(0)).unwrap();
    assert_eq!((count, disk.ops()), (5000, before));
}

#[test]
fn the_log_of_the_database_goes_away_with_its_last_connection() {
    let disk = Disk::new();
    let db = connect(&disk, WAL_FULL);
    create_tables(&db);
    assert_eq!(names(&disk), ["jobs.db", "jobs.db-wal"]);
    drop(db);
    assert_eq!(names(&disk), ["jobs.db"]);
}

#[test]
fn a_connection_outlives_the_hand_that_held_its_disk() {
    let disk = Disk::new();
    let (db, path) = (connect(&disk, WAL_FULL), disk.path(DB));
    create_tables(&db);
    commit(&disk, &db, 1);
    drop(disk);
    db.execute_batch("insert into job values (2, x'')").unwrap();
    drop(db);
    let flags = rusqlite::OpenFlags::default();
    let reopened = rusqlite::Connection::open_with_flags_and_vfs(path, flags, crash_disk::VFS_NAME);
    assert!(reopened.is_err(), "a disk without a holder is still there");
}

#[test]
fn a_killed_process_leaves_a_log_that_goes_on() {
    let disk = Disk::new();
    run_workload(&disk, WAL_FULL);
    let after = disk.after_kill(disk.ops());
    assert_eq!((after.ops(), after.files()), (disk.ops(), disk.files()));
    assert_eq!(after.describe(0..3), disk.describe(0..3));
}

fn names(disk: &Disk) -> Vec<String> {
    disk.files().into_iter().map(|(name, _)| name).collect()
}
