//! Tests of every statement's plan in four situations: on empty tables; on tables that have grown
//! by a million rows while the statistics still say empty; with correct statistics; and with
//! statistics that say hardly a row is left on many pages, as after all jobs have ended. The plan
//! must find rows the same way each time. So a statement that walks a table is found here and not
//! in production.

use super::{
    schema::clock_connection,
    sql::{self, Names},
    tests::{RUNTIME, fresh_address},
};
use tokio_postgres::{Client, SimpleQueryMessage};

/// Tables that always stay small and may be scanned as a whole.
const SMALL: [&str; 12] = [
    "lock",
    "store_meta",
    "liveness",
    "queue",
    "policy",
    "record",
    "worker",
    "counter",
    "delta",
    "node",
    "leader",
    "numbering",
];

/// Statements that follow an index from its first entry, and why they read little.
const FROM_THE_START: [(&str, &str); 6] = [
    ("INBOX_NEXT", "rows that are not jobs yet, and no more than are taken at once"),
    ("INBOX_PEEK", "rows that are not jobs yet, and no more than are taken at once"),
    ("ERASED_OLD", "the first of all, and no other"),
    ("UNNUMBERED", "pages without numbers, and no more than are numbered at once"),
    ("OUTBOX_PAGE_FIRST", "the first, and no other"),
    ("AUDIT_HEAD", "the last, and no other"),
];

/// This many jobs are queued, and as many have ended.
const ROWS: u32 = 1_000_000;

#[test]
fn every_statement_uses_an_index_whatever_the_statistics() {
    RUNTIME.block_on(async {
        let address = fresh_address();
        let (client, names) = clock_connection(&address).await.expect("it can be opened");
        let schema = address.schema();
        each_table(&client, schema, "alter table %s set (autovacuum_enabled = off)").await;
        each_table(&client, schema, "analyze %s").await;
        // A session keeps these plans for a second.
        let empty = plans(&client, &names).await;
        assert_eq!(walked(&empty), [""; 0], "on empty tables");
        grow(&client, &names).await;
        let grown = plans(&client, &names).await;
        assert_eq!(walked(&grown), [""; 0], "on {ROWS} rows, with statistics of empty tables");
        assert_claim_is_quick(&client, &names).await;
        each_table(&client, schema, "analyze %s").await;
        assert_same(&plans(&client, &names).await, &grown, "when statistics are right");
        each_table(&client, schema, "delete from %s where ctid <> (select max(ctid) from %1$s)")
            .await;
        each_table(&client, schema, "vacuum analyze %s").await;
        assert_same(&plans(&client, &names).await, &grown, "where one row is left on many pages");
    });
}

/// Each statement finds its rows the same way. How it combines what it found may differ.
fn assert_same(now: &[Plan], grown: &[Plan], when: &str) {
    let ways = |(name, plan): &Plan| {
        let is_way = |line: &&str| [" Scan ", " Cond: "].iter().any(|word| line.contains(word));
        let lines = plan.iter().map(|line| line.trim_start_matches([' ', '-', '>']));
        format!("{name} {when}:\n{}", lines.filter(is_way).collect::<Vec<_>>().join("\n"))
    };
    for (now, grown) in now.iter().zip(grown) {
        assert_eq!(ways(now), ways(grown));
    }
}

/// The name of a statement, and the lines of its plan.
type Plan = (&'static str, Vec<String>);

/// Runs a statement on every table of the schema.
async fn each_table(client: &Client, schema: &str, what: &str) {
    let name = "quote_ident(schemaname) || '.' || quote_ident(tablename)";
    let each =
        format!("select format('{what}', {name}) from pg_tables where schemaname = '{schema}'");
    for row in client.query_typed(&each, &[]).await.unwrap() {
        client.batch_execute(row.get(0)).await.unwrap();
    }
}

/// The plan of every statement, by its name.
async fn plans(client: &Client, names: &Names) -> Vec<Plan> {
    let mut plans = Vec::new();
    client.batch_execute(&sql::begin(sql::WRITE, false)).await.unwrap();
    for (name, sql) in sql::ALL {
        plans.push((*name, plan(client, &names.of(sql)).await));
    }
    client.batch_execute("rollback").await.unwrap();
    plans
}

/// The faults in these plans: a large table is walked or hashed.
fn walked(plans: &[Plan]) -> Vec<String> {
    let bad = |(name, plan): &Plan| {
        let starts = FROM_THE_START.iter().any(|(starts, _)| starts == name);
        let lines = plan.iter().enumerate();
        let bad =
            lines.filter(|(at, line)| is_bad(line) || !starts && is_unbound(line, &plan[at + 1..]));
        bad.map(|(_, line)| format!("{name}: {}", line.trim())).collect::<Vec<_>>()
    };
    plans.iter().flat_map(bad).collect()
}

async fn plan(client: &Client, sql: &str) -> Vec<String> {
    let values = (1..).take_while(|n| sql.contains(&format!("${n}"))).map(|_| "null");
    let values = values.collect::<Vec<_>>().join(", ");
    let values = if values.is_empty() { values } else { format!("({values})") };
    explained(client, sql, "costs off", &values).await
}

async fn explained(client: &Client, sql: &str, how: &str, values: &str) -> Vec<String> {
    client.batch_execute(&format!("prepare p as {sql}")).await.unwrap();
    let messages =
        client.simple_query(&format!("explain ({how}) execute p{values}")).await.unwrap();
    client.batch_execute("deallocate p").await.unwrap();
    let lines = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    });
    lines.collect()
}

fn is_bad(line: &str) -> bool {
    line.contains("Hash Join") || is_of_large(line, "Seq Scan on ")
}

/// Whether an index is walked without a condition that selects its entries.
fn is_unbound(line: &str, below: &[String]) -> bool {
    let mut own = below.iter().take_while(|line| !line.contains("->"));
    let by_index = ["Index Scan", "Index Only Scan"].iter().any(|scan| line.contains(scan));
    by_index && is_of_large(line, " on ") && !own.any(|line| line.contains("Index Cond: "))
}

/// Whether the table named after this word is large.
fn is_of_large(line: &str, word: &str) -> bool {
    let behind = line.split(word).nth(1);
    let table = behind.and_then(|rest| rest.split_whitespace().next()).map(base_name);
    table.is_some_and(|table| !SMALL.contains(&table))
}

fn base_name(table: &str) -> &str {
    table.rsplit('.').next().unwrap_or(table)
}

/// Fills the tables without updating statistics.
async fn grow(client: &Client, names: &Names) {
    let grow = format!(
        "insert into consign.queue (job_type, tenant) select 't' || n, 'default' from generate_series(1, 10) n; \
         insert into consign.submission select n, ('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, \
           1 + n % 10, -n, -n, -n, null, '\\x00', '1' from generate_series(1, {ROWS} * 2) n; \
         insert into consign.job select n, 1 + n % 10, n % 10, n, null, null, null, '\\x00' \
           from generate_series(1, {ROWS}) n; \
         insert into consign.job_ended select n, 1 + n % 10, 2, null, false, n, '\\x00' \
           from generate_series({ROWS} + 1, {ROWS} * 2) n; \
         insert into consign.outbox select n * 20, '\\x00' from generate_series(1, {ROWS} / 20) n; \
         insert into consign.outbox_number select n * 20, n * 20, 20 from generate_series(1, {ROWS} / 20) n; \
         insert into consign.key select 1 + n % 10, 'k' || n, ('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid \
           from generate_series(1, {ROWS} / 10) n"
    );
    client.batch_execute(&names.of(&grow)).await.unwrap();
}

/// Most of the work is this one statement: it reads rows in index order, touches few, and sorts
/// none.
async fn assert_claim_is_quick(client: &Client, names: &Names) {
    client.batch_execute(&sql::begin(sql::WRITE, false)).await.unwrap();
    let floors = vec!["0"; 20].join(",");
    let values = format!(
        "('{{1,2}}', '{{100,100}}', '{{0,1,2,3,4,5,6,7,8,9}}', '{{{floors}}}', 9223372036854775807, 10, '{{7}}')"
    );
    let ready = names.of(sql::DUE_LOCK);
    let plan = explained(client, &ready, "analyze, timing off", &values).await.join("\n");
    client.batch_execute("rollback").await.unwrap();
    assert!(!plan.contains("Sort"), "{plan}");
    assert!(plan.contains("Index Scan using job_ready"), "{plan}");
    assert!(plan.contains("rows=200 loops=1"), "only what is wanted is found: {plan}");
}
