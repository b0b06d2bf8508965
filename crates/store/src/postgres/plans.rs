//! The plan of every statement, read: on tables that are empty, and on tables that have grown by a million rows while
//! the statistics still say that they are empty. A statement that walks a table is found here and not in production.

use super::{
    schema::clock_connection,
    sql::{self, Names},
    tests::{RUNTIME, fresh_address},
};
use tokio_postgres::Client;

/// Tables that are small, whatever happens, and may be read as a whole.
const SMALL: [&str; 13] = [
    "house",
    "pulse",
    "queue",
    "policy",
    "pause",
    "worker",
    "counter",
    "delta",
    "api_key",
    "signing_key",
    "node",
    "leader",
    "numbering",
];

/// So many jobs wait, and as many have ended.
const ROWS: u32 = 1_000_000;

#[test]
fn every_statement_goes_by_index_whatever_the_statistics_say() {
    RUNTIME.block_on(async {
        let address = fresh_address();
        let (client, names) = clock_connection(&address).await.expect("it can be opened");
        keep_statistics_stale(&client, address.schema()).await;
        let empty = walked(&client, &names).await;
        assert_eq!(empty, [""; 0], "on empty tables");
        grow(&client, &names).await;
        let grown = walked(&client, &names).await;
        assert_eq!(grown, [""; 0], "on {ROWS} rows, with statistics of empty tables");
        assert_claim_is_quick(&client, &names).await;
    });
}

/// Statistics are taken now, of empty tables, and never again.
async fn keep_statistics_stale(client: &Client, schema: &str) {
    let tables = "select format('alter table %I.%I set (autovacuum_enabled = off); analyze %I.%I', schemaname, \
                  tablename, schemaname, tablename) from pg_tables where schemaname = '";
    let rows = client.query_typed(&format!("{tables}{schema}'"), &[]).await.unwrap();
    for row in rows {
        client.batch_execute(row.get(0)).await.unwrap();
    }
}

/// The statements whose plans walk a table that is not small, sort what is ready, or build a hash of a table.
async fn walked(client: &Client, names: &Names) -> Vec<String> {
    let mut walked = Vec::new();
    client.batch_execute(&sql::begin(sql::WRITE, false)).await.unwrap();
    for (name, sql) in sql::ALL {
        let plan = plan(client, &names.of(sql)).await;
        for line in plan.iter().filter(|line| is_bad(line)) {
            walked.push(format!("{name}: {}", line.trim()));
        }
    }
    client.batch_execute("rollback").await.unwrap();
    walked
}

async fn plan(client: &Client, sql: &str) -> Vec<String> {
    client.batch_execute(&format!("prepare p as {sql}")).await.unwrap();
    let values = (1..).take_while(|n| sql.contains(&format!("${n}"))).map(|_| "null");
    let values = values.collect::<Vec<_>>().join(", ");
    let values = if values.is_empty() { values } else { format!("({values})") };
    let messages = client.simple_query(&format!("explain execute p{values}")).await.unwrap();
    client.batch_execute("deallocate p").await.unwrap();
    let lines = messages.iter().filter_map(|message| match message {
        tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    });
    lines.collect()
}

fn is_bad(line: &str) -> bool {
    let walked = line.split("Seq Scan on ").nth(1);
    let table = walked.and_then(|rest| rest.split_whitespace().next()).map(base_name);
    table.is_some_and(|table| !SMALL.contains(&table)) || line.contains("Hash Join")
}

fn base_name(table: &str) -> &str {
    table.rsplit('.').next().unwrap_or(table)
}

/// Fills the tables behind the back of the statistics.
async fn grow(client: &Client, names: &Names) {
    let grow = format!(
        "insert into consign.queue (job_type, tenant) select 't' || n, 'default' from generate_series(1, 10) n; \
         insert into consign.handed select n, ('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, \
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

/// The one statement that is most of the work: rows come in the order of the index, a few are touched, none is sorted.
async fn assert_claim_is_quick(client: &Client, names: &Names) {
    client.batch_execute(&sql::begin(sql::WRITE, false)).await.unwrap();
    let ready = names.of(sql::READY);
    client.batch_execute(&format!("prepare p as {ready}")).await.unwrap();
    let floors = vec!["0"; 20].join(",");
    let explain = format!(
        "explain (analyze, timing off) execute p('{{1,2}}', '{{100,100}}', '{{0,1,2,3,4,5,6,7,8,9}}', '{{{floors}}}', \
         9223372036854775807, 10, '{{7}}')"
    );
    let messages = client.simple_query(&explain).await.unwrap();
    client.batch_execute("rollback").await.unwrap();
    let lines: Vec<String> = messages
        .iter()
        .filter_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        })
        .collect();
    let plan = lines.join("\n");
    assert!(!plan.contains("Sort"), "{plan}");
    assert!(plan.contains("Index Scan using job_ready"), "{plan}");
    assert!(plan.contains("rows=200 loops=1"), "only what is wanted is found: {plan}");
}
