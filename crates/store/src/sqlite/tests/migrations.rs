//! A store that an older version wrote.

use super::{
    super::{backup, examine, migrate, open::MIGRATIONS, restore, schema, verify_audit},
    *,
};
use crate::{AuditChain, Execute, Notification, Request};
use engine::{AuditHash, JobId};

/// A file of the first schema with the jobs of `test_store` in it.
fn first_schema(test_store: &TestStore, name: &str) -> PathBuf {
    let path = test_store.path.with_file_name(name);
    let db = Connection::open(&path).unwrap();
    db.execute_batch(MIGRATIONS[0].1).unwrap();
    let tables = "select name from sqlite_schema where type = 'table'";
    let mut tables = db.prepare(tables).unwrap();
    let tables: Vec<String> =
        tables.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    assert!(!tables.iter().any(|table| table == "audit"));
    db.execute("attach ?1 as now", [test_store.path.to_str().unwrap()]).unwrap();
    for table in tables {
        db.execute_batch(&format!("insert into main.{table} select * from now.{table}")).unwrap();
    }
    let application: i64 = db.query_row("pragma now.application_id", [], |row| row.get(0)).unwrap();
    db.execute_batch(&format!("pragma application_id = {application}; pragma user_version = 1"))
        .unwrap();
    path
}

fn listed(store: &Sqlite) -> Vec<JobId> {
    let query = Query { scope: Scope::All, filter: Filter::Everything, before: None, limit: 1_000 };
    block_on(store.list(&query)).unwrap().jobs.iter().map(engine::Job::id).collect()
}

#[test]
fn a_store_of_the_first_schema_is_brought_up_to_date() {
    let test_store = test_store();
    live_a_little(&test_store.fixture);
    let old = first_schema(&test_store, "old.db");
    let (clock, random) = (test_store.fixture.clock.clone(), test_store.fixture.random.clone());
    for _ in 0..2 {
        let store = Sqlite::open(&old, clock.clone(), random.clone(), options()).unwrap();
        assert_eq!(listed(&store), test_store.fixture.list(Filter::Everything));
    }
    let store = Sqlite::open(&old, clock.clone(), random, options()).unwrap();
    assert_eq!(block_on(store.keys(None)).unwrap().len(), 3, "records were there before");
    let put = Request::put_key(&key(4, Scope::All));
    store.execute(vec![recorded("key", put)], Notification::default()).unwrap()[0]
        .as_ref()
        .unwrap();
    assert!(block_on(store.keys(None)).unwrap().contains(&key(4, Scope::All)));
    assert!(matches!(verify_audit(&old, &mut |_| {}), Ok(AuditChain::Whole { entries: 1, .. })));
    assert_eq!(examine(&old, clock.read().wall, &mut |_| {}).unwrap().findings, []);
}

/// Read-only commands do not migrate, and do not report missing later tables. A restore migrates:
/// it writes an entry of the audit log.
#[test]
fn a_store_of_the_first_schema_is_examined_copied_and_restored() {
    let test_store = test_store();
    live_a_little(&test_store.fixture);
    let old = first_schema(&test_store, "old.db");
    let (clock, random) = (test_store.fixture.clock.clone(), test_store.fixture.random.clone());
    assert_eq!(examine(&old, clock.read().wall, &mut |_| {}).unwrap().findings, []);
    let none = AuditChain::Whole { entries: 0, head: AuditHash::FIRST };
    assert_eq!(verify_audit(&old, &mut |_| {}).unwrap(), none);
    let (copy, other) = (old.with_file_name("copy.db"), old.with_file_name("other.db"));
    backup(&old, &copy).unwrap();
    assert_eq!(schema(&copy).unwrap().version, 1, "copied as it is");
    restore(&copy, &other, Some((note(Scope::All, "other.db"), clock.read().wall))).unwrap();
    assert!(matches!(verify_audit(&other, &mut |_| {}), Ok(AuditChain::Whole { entries: 1, .. })));
    assert_eq!(examine(&other, clock.read().wall, &mut |_| {}).unwrap().findings, []);
    let store = Sqlite::open(&other, clock, random, options()).unwrap();
    assert_eq!(listed(&store), test_store.fixture.list(Filter::Everything));
}

#[test]
fn an_operator_sees_what_is_missing_and_brings_it_up_to_date() {
    let test_store = test_store();
    live_a_little(&test_store.fixture);
    let old = first_schema(&test_store, "old.db");
    let supported = MIGRATIONS.len() as i64;
    let seen = schema(&old).unwrap();
    assert_eq!((seen.version, seen.supported_version), (1, supported));
    let missing: Vec<i64> = seen.missing.iter().map(|migration| migration.number).collect();
    assert_eq!(missing, (2..=supported).collect::<Vec<_>>());
    assert_eq!(schema(&old).unwrap(), seen, "looking changes nothing");
    assert_eq!(migrate(&old, "a test").unwrap(), seen);
    assert_eq!(schema(&old).unwrap().missing, []);
    assert_eq!(migrate(&old, "a test").unwrap().version, supported);
    let store = Sqlite::open(
        &old,
        test_store.fixture.clock.clone(),
        test_store.fixture.random.clone(),
        options(),
    );
    let store = store.unwrap();
    assert_eq!(listed(&store), test_store.fixture.list(Filter::Everything));
    let refused = migrate(&old, "a test");
    assert!(matches!(refused, Err(OpenError::InUse { .. })), "{refused:?}");
    assert_eq!(schema(&old).unwrap().version, supported, "which may be asked at any time");
}

#[test]
fn a_file_that_is_no_store_is_not_migrated() {
    let test_store = test_store();
    let path = test_store.path.with_file_name("empty.db");
    std::fs::write(&path, "").unwrap();
    for refused in [schema(&path), migrate(&path, "a test")] {
        assert!(matches!(refused, Err(OpenError::NotOurs { .. })), "{refused:?}");
    }
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
}
