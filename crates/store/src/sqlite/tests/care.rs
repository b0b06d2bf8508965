//! What an operator does with a store: examine, back up, restore.

use super::*;

#[test]
fn a_sound_store_has_no_findings() {
    let test_store = test_store();
    live_a_little(&test_store.fixture);
    let health = test_store.examine();
    assert_eq!(health.findings, [], "while it is open");
    assert_eq!((health.live_jobs, health.ended_jobs, health.keys), (38, 2, 20));
}

#[test]
fn the_doctor_sees_what_is_wrong() {
    let wrong = [
        ("update counter set body = x'01'; update delta set body = x'01'", "not as it was written"),
        ("delete from delta", "the counters of email of default say"),
        ("update submission set payload = x'00' where no = 7", ": the payload of row 7"),
        ("update submission set id = randomblob(16) where no = 7", "stored under another id"),
        (
            "update submission set envelope = (select envelope from submission where no = 8) where no = 7",
            "submission of row 7",
        ),
        ("insert into history values (7, 2, null, x'')", "is incomplete"),
        ("delete from submission where no = 9", "have no submission"),
        ("delete from job where no = 9", "in both job tables, or in neither"),
        ("delete from submission where no = 1", "keys point to jobs that do not have them"),
        ("update outbox set page = x'' where first_event = 3", "an event of row 3"),
        ("update step set body = x''", "a step of row"),
        (
            "update key set name = 'other' where name = 'k1'",
            "1 keys point to jobs that do not have them",
        ),
        ("update store_meta set body = x'01'", "store metadata of row 1"),
        ("update queue set tenant = 'acme'", "a queue is stored under another name"),
        ("update record set body = x'00' where kind = 'api_key'", "an API key of row"),
        ("update record set body = x'00' where kind = 'signing_key'", "a signing key of row"),
        ("update record set key = 'x' where kind = 'signing_key'", "a signing key of row"),
        ("update record set body = x'00' where kind = 'policy'", "a policy of row"),
        ("delete from audit where number = 2", "the audit log is broken: entry 2 is missing"),
    ];
    for (sql, message) in wrong {
        let test_store = test_store();
        live_a_little(&test_store.fixture);
        (test_store.fixture.restart)();
        test_store.tamper(sql);
        let text = test_store.findings_text();
        assert!(text.contains(message), "{sql}: {text}");
        let findings = test_store.examine().findings;
        assert!(findings.iter().all(|finding| finding.remedy.contains("restore the last backup")));
    }
}

/// The latest rows are in the job's row, the others in the history table.
#[test]
fn a_long_history_is_whole_and_the_doctor_sees_a_gap_in_it() {
    let test_store = test_store();
    let job = test_store.fixture.submit(email());
    for _ in 0..engine::RELEASES_MAX {
        let token = token(&test_store.fixture.take());
        let (reason, delay) = (engine::ReleaseReason::Snoozed, std::time::Duration::ZERO);
        test_store.fixture.must(job, Command::Release { token, reason, delay });
    }
    let rows = u64::from(engine::RELEASES_MAX) * 2 + 1;
    let seqs = |fixture: &Fixture, after| -> Vec<u64> {
        let rows = block_on(fixture.store().history(&engine::Scope::All, job, after)).unwrap();
        rows.iter().map(|row| row.seq).collect()
    };
    for after in [0, 1, 7, 8, 20, rows - 1, rows] {
        assert_eq!(seqs(&test_store.fixture, after), (after + 1..=rows).collect::<Vec<_>>());
    }
    assert_eq!(test_store.examine().findings, []);
    for seq in [1, 7, 8, 16, 32] {
        let (test_store, sql) =
            (&test_store, format!("delete from history where no = 1 and seq = {seq}"));
        test_store.tamper("create table if not exists saved as select * from history");
        test_store.tamper(&sql);
        assert!(
            test_store.findings_text().contains("is incomplete"),
            "{sql}: {}",
            test_store.findings_text()
        );
        test_store.tamper("insert or ignore into history select * from saved");
    }
}

#[test]
fn the_doctor_reports_unswept_leases_and_keys() {
    let test_store = test_store();
    live_a_little(&test_store.fixture);
    test_store.fixture.pass(120);
    assert!(
        test_store.findings_text().contains("notice: 1 leases are over for more than a minute")
    );
    test_store.fixture.pass(15 * 86_400);
    assert!(
        test_store.findings_text().contains("notice: 2 of 20 keys belong to jobs that ended"),
        "{}",
        test_store.findings_text()
    );
}

#[test]
fn a_backup_is_made_while_the_store_is_at_work() {
    let test_store = test_store();
    live_a_little(&test_store.fixture);
    let copy = test_store.path.with_file_name("copy.db");
    super::super::backup(&test_store.path, &copy).unwrap();
    let before = test_store.fixture.list(Filter::Everything);
    live_a_little(&test_store.fixture);
    let again = super::super::backup(&test_store.path, &copy).unwrap_err();
    assert!(matches!(again, OpenError::Exists { .. }), "a backup is never written over: {again}");
    let other = test_store.path.with_file_name("other.db");
    super::super::restore(&copy, &other, None).unwrap();
    let (clock, random) = (test_store.fixture.clock.clone(), test_store.fixture.random.clone());
    let restored = Sqlite::open(&other, clock, random, options()).unwrap();
    let query = Query { scope: Scope::All, filter: Filter::Everything, before: None, limit: 1_000 };
    let jobs = block_on(restored.list(&query)).unwrap().jobs;
    assert_eq!(jobs.iter().map(engine::Job::id).collect::<Vec<_>>(), before);
    let now = test_store.fixture.clock.read().wall;
    assert_eq!(super::super::examine(&other, now, &mut |_| {}).unwrap().findings, []);
}

#[test]
fn a_restore_refuses_existing_targets_and_foreign_files() {
    let test_store = test_store();
    let copy = test_store.path.with_file_name("copy.db");
    super::super::backup(&test_store.path, &copy).unwrap();
    let in_use = super::super::restore(&copy, &test_store.path, None).unwrap_err();
    assert!(matches!(in_use, OpenError::InUse { .. }), "{in_use}");
    let TestStore { fixture, path, _folder } = test_store;
    drop(fixture);
    let exists = super::super::restore(&copy, &path, None).unwrap_err();
    assert!(matches!(exists, OpenError::Exists { .. }), "{exists}");
    let (foreign, other) = (path.with_file_name("foreign.db"), path.with_file_name("other.db"));
    Connection::open(&foreign).unwrap().execute_batch("create table t (x)").unwrap();
    let not_ours = super::super::restore(&foreign, &other, None).unwrap_err();
    assert!(matches!(not_ours, OpenError::NotOurs { .. }), "{not_ours}");
    assert!(!other.exists(), "nothing half-way is left");
}

#[test]
fn a_log_that_was_left_behind_is_not_restored_into() {
    let test_store = test_store();
    let folder = test_store.path.parent().unwrap().to_owned();
    let (copy, other) = (folder.join("copy.db"), folder.join("other.db"));
    super::super::backup(&test_store.path, &copy).unwrap();
    std::fs::write(super::super::file::with_suffix(&other, "-wal"), "left behind").unwrap();
    let refused = super::super::restore(&copy, &other, None).unwrap_err().to_string();
    assert!(refused.contains("other.db-wal exists already"), "{refused}");
    let left: Vec<_> =
        std::fs::read_dir(&folder).unwrap().map(|f| f.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().contains("partial")), "{left:?}");
}

#[test]
fn a_damaged_store_is_no_backup() {
    let test_store = test_store();
    live_a_little(&test_store.fixture);
    let folder = test_store.path.parent().unwrap().to_owned();
    let (good, bad) = (folder.join("good.db"), folder.join("bad.db"));
    super::super::backup(&test_store.path, &good).unwrap();
    test_store.tamper("update submission set payload = x'00' where no = 7");
    let refused = super::super::backup(&test_store.path, &bad).unwrap_err();
    assert!(matches!(refused, OpenError::Damaged { .. }), "{refused}");
    Connection::open(&good).unwrap().execute_batch("update job set body = x'00'").unwrap();
    let refused = super::super::restore(&good, &folder.join("other.db"), None).unwrap_err();
    assert!(matches!(refused, OpenError::Damaged { .. }), "{refused}");
    assert!(!bad.exists() && !folder.join("other.db").exists());
}

#[test]
fn doctor_and_backup_leave_no_files_at_a_closed_store() {
    let test_store = test_store();
    live_a_little(&test_store.fixture);
    let (now, path) = (test_store.fixture.clock.read().wall, test_store.path.clone());
    let TestStore { fixture, _folder, .. } = test_store;
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
