//! What an operator does with a store: examine it, copy it, restore it.

use super::*;

#[test]
fn a_sound_store_has_no_findings() {
    let desk = desk();
    live_a_little(&desk.fixture);
    let health = desk.examine();
    assert_eq!(health.findings, [], "while it is open");
    assert_eq!((health.live_jobs, health.ended_jobs, health.keys), (38, 2, 20));
}

#[test]
fn the_doctor_sees_what_is_wrong() {
    let wrong = [
        ("update counter set body = x'01'; update delta set body = x'01'", "not as it was written"),
        ("delete from delta", "the counters of email of default say"),
        ("update submission set payload = x'00' where no = 7", ": the payload of row 7"),
        ("update submission set id = randomblob(16) where no = 7", "under another's id"),
        (
            "update submission set envelope = (select envelope from submission where no = 8) where no = 7",
            "what was handed over of row 7",
        ),
        ("insert into history values (7, 2, null, x'')", "is not whole"),
        ("delete from submission where no = 9", "were never handed over"),
        ("delete from job where no = 9", "live and ended, or neither"),
        ("delete from submission where no = 1", "keys mean no job that has them"),
        ("update outbox set sheet = x'' where event = 3", "announcement of row 3"),
        ("update step set body = x''", "a step of row"),
        ("update key set name = 'other' where name = 'k1'", "1 keys mean no job that has them"),
        ("update store_meta set body = x'01'", "what the house knows of itself"),
        ("update queue set tenant = 'acme'", "a queue has another's name"),
        ("update record set body = x'00' where kind = 'api_key'", "an API key of row"),
        ("update record set body = x'00' where kind = 'signing_key'", "a signing key of row"),
        ("update record set key = 'x' where kind = 'signing_key'", "a signing key of row"),
        ("update record set body = x'00' where kind = 'policy'", "a policy of row"),
        ("delete from audit where number = 2", "the audit log is broken: entry 2 is missing"),
    ];
    for (sql, said) in wrong {
        let desk = desk();
        live_a_little(&desk.fixture);
        (desk.fixture.restart)();
        desk.tamper(sql);
        let found = desk.found();
        assert!(found.contains(said), "{sql}: {found}");
        let findings = desk.examine().findings;
        assert!(findings.iter().all(|finding| finding.cure.contains("restore the last backup")));
    }
}

/// Its youngest rows are kept with the job, the others in a table of their own.
#[test]
fn a_long_history_is_whole_and_the_doctor_sees_a_gap_in_it() {
    let desk = desk();
    let job = desk.fixture.submit(email());
    for _ in 0..engine::RELEASES_MAX {
        let token = token(&desk.fixture.take());
        let (reason, delay) = (engine::ReleaseReason::Snoozed, std::time::Duration::ZERO);
        desk.fixture.must(job, Command::Release { token, reason, delay });
    }
    let rows = u64::from(engine::RELEASES_MAX) * 2 + 1;
    let seqs = |fixture: &Fixture, after| -> Vec<u64> {
        let rows = block_on(fixture.store().history(&engine::Scope::All, job, after)).unwrap();
        rows.iter().map(|row| row.seq).collect()
    };
    for after in [0, 1, 7, 8, 20, rows - 1, rows] {
        assert_eq!(seqs(&desk.fixture, after), (after + 1..=rows).collect::<Vec<_>>());
    }
    assert_eq!(desk.examine().findings, []);
    for seq in [1, 7, 8, 16, 32] {
        let (desk, sql) = (&desk, format!("delete from history where no = 1 and seq = {seq}"));
        desk.tamper("create table if not exists kept as select * from history");
        desk.tamper(&sql);
        assert!(desk.found().contains("is not whole"), "{sql}: {}", desk.found());
        desk.tamper("insert or ignore into history select * from kept");
    }
}

#[test]
fn the_doctor_notices_what_nobody_swept() {
    let desk = desk();
    live_a_little(&desk.fixture);
    desk.fixture.pass(120);
    assert!(desk.found().contains("notice: 1 leases are over for more than a minute"));
    desk.fixture.pass(15 * 86_400);
    assert!(
        desk.found().contains("notice: 2 of 20 keys belong to jobs that ended"),
        "{}",
        desk.found()
    );
}

#[test]
fn a_backup_is_made_while_the_store_is_at_work() {
    let desk = desk();
    live_a_little(&desk.fixture);
    let copy = desk.path.with_file_name("copy.db");
    super::super::backup(&desk.path, &copy).unwrap();
    let before = desk.fixture.list(Filter::Everything);
    live_a_little(&desk.fixture);
    let again = super::super::backup(&desk.path, &copy).unwrap_err();
    assert!(matches!(again, OpenError::Exists { .. }), "a backup is never written over: {again}");
    let other = desk.path.with_file_name("other.db");
    super::super::restore(&copy, &other).unwrap();
    let (clock, random) = (desk.fixture.clock.clone(), desk.fixture.random.clone());
    let restored = Sqlite::open(&other, clock, random, options()).unwrap();
    let query = Query { scope: Scope::All, filter: Filter::Everything, before: None, limit: 1_000 };
    let jobs = block_on(restored.list(&query)).unwrap().jobs;
    assert_eq!(jobs.iter().map(engine::Job::id).collect::<Vec<_>>(), before);
    let now = desk.fixture.clock.read().wall;
    assert_eq!(super::super::examine(&other, now, &mut |_| {}).unwrap().findings, []);
}

#[test]
fn a_restore_writes_over_nothing_and_takes_only_backups_of_ours() {
    let desk = desk();
    let copy = desk.path.with_file_name("copy.db");
    super::super::backup(&desk.path, &copy).unwrap();
    let in_use = super::super::restore(&copy, &desk.path).unwrap_err();
    assert!(matches!(in_use, OpenError::InUse { .. }), "{in_use}");
    let Desk { fixture, path, _folder } = desk;
    drop(fixture);
    let exists = super::super::restore(&copy, &path).unwrap_err();
    assert!(matches!(exists, OpenError::Exists { .. }), "{exists}");
    let (foreign, other) = (path.with_file_name("foreign.db"), path.with_file_name("other.db"));
    Connection::open(&foreign).unwrap().execute_batch("create table t (x)").unwrap();
    let not_ours = super::super::restore(&foreign, &other).unwrap_err();
    assert!(matches!(not_ours, OpenError::NotOurs { .. }), "{not_ours}");
    assert!(!other.exists(), "nothing half-way is left");
}

#[test]
fn a_log_that_was_left_behind_is_not_restored_into() {
    let desk = desk();
    let folder = desk.path.parent().unwrap().to_owned();
    let (copy, other) = (folder.join("copy.db"), folder.join("other.db"));
    super::super::backup(&desk.path, &copy).unwrap();
    std::fs::write(super::super::file::with(&other, "-wal"), "left behind").unwrap();
    let refused = super::super::restore(&copy, &other).unwrap_err().to_string();
    assert!(refused.contains("other.db-wal exists already"), "{refused}");
    let left: Vec<_> =
        std::fs::read_dir(&folder).unwrap().map(|f| f.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().contains("partial")), "{left:?}");
}

#[test]
fn a_damaged_store_is_no_backup() {
    let desk = desk();
    live_a_little(&desk.fixture);
    let folder = desk.path.parent().unwrap().to_owned();
    let (good, bad) = (folder.join("good.db"), folder.join("bad.db"));
    super::super::backup(&desk.path, &good).unwrap();
    desk.tamper("update submission set payload = x'00' where no = 7");
    let refused = super::super::backup(&desk.path, &bad).unwrap_err();
    assert!(matches!(refused, OpenError::Damaged { .. }), "{refused}");
    Connection::open(&good).unwrap().execute_batch("update job set body = x'00'").unwrap();
    let refused = super::super::restore(&good, &folder.join("other.db")).unwrap_err();
    assert!(matches!(refused, OpenError::Damaged { .. }), "{refused}");
    assert!(!bad.exists() && !folder.join("other.db").exists());
}

#[test]
fn whoever_looks_at_a_closed_store_leaves_nothing_behind() {
    let desk = desk();
    live_a_little(&desk.fixture);
    let (now, path) = (desk.fixture.clock.read().wall, desk.path.clone());
    let Desk { fixture, _folder, .. } = desk;
    drop(fixture);
    assert_eq!(super::super::examine(&path, now, &mut |_| {}).unwrap().findings, []);
    super::super::backup(&path, &path.with_file_name("copy.db")).unwrap();
    let mut left: Vec<_> = std::fs::read_dir(path.parent().unwrap())
        .unwrap()
        .map(|f| f.unwrap().file_name())
        .collect();
    left.sort();
    assert_eq!(left, ["consign.db", "consign.db.lock", "copy.db"]);
}
