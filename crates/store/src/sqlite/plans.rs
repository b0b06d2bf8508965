//! Checks the plan of every statement: by index, with an empty store and with a million jobs.

use super::{
    Sqlite, sql,
    tests::{clock_and_random, folder, options},
};
use rusqlite::Connection;
use std::io::Write;

/// Statements that read a whole table or index on purpose, and why that is little.
const WHOLE: &[(&str, &str)] = &[
    ("STORE_META", "one row"),
    ("STORE_META_PUT", "one row"),
    ("QUEUES", "as many rows as there are queues"),
    ("RECORD_KINDS", "as many rows as there are records"),
    ("WORKERS", "as many rows as there are workers"),
    ("COUNTERS", "as many rows as there are queues"),
    ("DELTAS", "as many rows as commits since the last roll-up"),
    ("DELTAS_FORGET", "as many rows as commits since the last roll-up"),
    ("AUDIT_HEAD", "the last row, and no other"),
    ("RUNNING_JOBS", "an index of running jobs only, and workers have slots"),
    ("CLAIMED_JOBS", "an index of running jobs only, and workers have slots"),
    ("LIST_RUNNING", "an index of running jobs only, and workers have slots"),
];

/// Statements that sort, and why that is little.
const SORTS: &[(&str, &str)] = &[
    ("LIST_RUNNING", "running jobs only"),
    ("DUE_EXPIRED", "jobs that expired since the last sweep, one number per queue"),
];

const JOBS: i64 = 1_000_000;

#[test]
fn every_statement_goes_by_index_at_none_and_at_a_million_jobs() {
    let folder = folder();
    let path = folder.path().join("consign.db");
    let (clock, random) = clock_and_random();
    drop(Sqlite::open(&path, clock, random, options()).expect("it can be opened"));
    let db = Connection::open(&path).expect("it can be opened");
    let empty = check(&db);
    fill(&db);
    let full = check(&db);
    // An operator may let SQLite gather statistics. They must not lead to a worse plan.
    db.execute_batch("analyze").expect("it can be analysed");
    check(&db);
    assert_eq!(empty, full, "the plans do not depend on what is there");
    let count = sql::ALL.len();
    writeln!(std::io::stderr(), "{count} statements go by index at 0 and at {JOBS} jobs")
        .expect("it prints");
}

/// The plans of all statements. Fails if one of them uses no index.
fn check(db: &Connection) -> Vec<String> {
    let plans = sql::ALL.iter().map(|(name, sql)| {
        let plan = plan(db, sql);
        let is_whole = WHOLE.iter().any(|(whole, _)| whole == name);
        // A subquery is walked, too, but the plan has a line of its own for what it reads. The rows
        // in a `values` clause are in no table.
        let rows = format!("SCAN {}-ROW VALUES CLAUSE", sql::ROWS_AT_ONCE);
        let walks = plan.replace("SCAN (subquery", "").replace(&rows, "").contains("SCAN");
        assert!(is_whole || !walks, "{name} walks a table:\n{plan}");
        let may_sort = SORTS.iter().any(|(sorts, _)| sorts == name);
        assert!(may_sort || !plan.contains("TEMP B-TREE"), "{name} sorts:\n{plan}");
        plan
    });
    plans.collect()
}

fn plan(db: &Connection, sql: &str) -> String {
    let mut statement = db.prepare(&format!("explain query plan {sql}")).expect("it is SQL");
    let rows = statement.raw_query().mapped(|row| row.get::<_, String>(3));
    rows.collect::<Result<Vec<_>, _>>().expect("it has a plan").join("\n")
}

/// A million jobs, half of them ended, with all their rows. The bodies are empty: plans do not
/// depend on them.
fn fill(db: &Connection) {
    let numbers = format!(
        "with recursive n (no) as (select 1 union all select no + 1 from n where no < {JOBS})"
    );
    for insert in [
        "insert into queue select no, 'type-' || no, 'tenant-' || (no % 10), x'' from n where no <= 100",
        "insert into submission select no, randomblob(16), x'', x'', null from n",
        "insert into job select no, no % 100, iif(no % 10 = 0, null, no % 7), \
            iif(no % 10 = 0, null, no), iif(no % 50 = 1, no, null), iif(no % 10 = 0, no, null), \
            iif(no % 10 = 0, -no, null), iif(no % 9 = 0, -(no % 5), null), \
            iif(no % 11 = 0, -(no % 1000), null), iif(no % 1000 = 0, -no, null), x'' from n \
            where no % 2 = 0",
        "insert into job_ended select no, no % 100, 2 + no % 4, iif(no % 9 = 0, -(no % 5), null), \
            no % 3 = 0, no, x'' from n where no % 2 = 1",
        "insert into history select no, 1, no, x'' from n",
        "insert into outbox select no, x'' from n",
        "insert into listing select no >> 16, -(no % 1000) - 1, no from n",
        "insert into key select no % 100, 'key-' || no, no, iif(no % 2 = 1, no, null) from n \
            where no % 10 < 2",
        "insert into step select no, 'step', x'' from n where no % 10 = 0",
        "insert into audit select no, 'tenant-' || (no % 100), x'' from n",
        "insert into erased select -no, no, x'' from n where no % 1000 = 0",
    ] {
        let (into, select) = insert.split_once(" select ").expect("an insert of a select");
        db.execute_batch(&format!("{into} {numbers} select {select}")).expect(insert);
    }
}
