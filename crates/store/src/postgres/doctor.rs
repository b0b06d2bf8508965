//! What a database says about itself, for an operator who asks whether all is well. Nothing is judged here.

use super::{address::PostgresAddress, error::PostgresError, schema::way};
use crate::clock::Clock;
use std::time::Duration;
use tokio_postgres::{Client, Error, Row};

/// A database as it is now.
#[derive(Clone, Debug)]
pub struct PostgresHealth {
    /// As in `16.4`.
    pub version: String,
    /// As in 160004.
    pub version_number: i32,
    /// Whom we come as.
    pub role: String,
    /// Whether that role may do anything at all, which is more than we need.
    pub superuser: bool,
    /// Whether our schema is there.
    pub schema_is_there: bool,
    /// Whether the role may make things in our schema; where there is none, whether it may make one.
    pub may_migrate: bool,
    /// Tables of ours in which the role may not do everything that a node does.
    pub closed_tables: Vec<String>,
    /// Settings that matter, with their values.
    pub settings: Vec<(String, String)>,
    /// Whether transactions of other roles can be seen.
    pub sees_all: bool,
    /// Transactions that have been open for long, and hold cleaning up back, oldest first.
    pub long_transactions: Vec<LongTransaction>,
    /// Transactions that were prepared and never ended.
    pub prepared: Vec<String>,
    /// How far the database's clock is ahead of ours, in milliseconds; half a round trip is not known.
    pub ahead_ms: i64,
    /// How long a round trip took.
    pub round_trip: Duration,
    /// Connections of everybody, and how many there may be.
    pub connections: (i64, i64),
}

/// A transaction that has been open for long.
#[derive(Clone, Debug)]
pub struct LongTransaction {
    /// Its process at the server.
    pub pid: i32,
    /// Who.
    pub role: String,
    /// For how long.
    pub seconds: i64,
}

const LOOK: &str = "select current_setting('server_version'), current_setting('server_version_num')::int4, \
    current_user::text, (select rolsuper from pg_roles where rolname = current_user), \
    to_regnamespace('consign') is not null, \
    case when to_regnamespace('consign') is null \
        then has_database_privilege(current_database(), 'create') \
        else has_schema_privilege(to_regnamespace('consign')::oid, 'create') end, \
    pg_has_role(current_user, 'pg_read_all_stats', 'member'), \
    (select count(*) from pg_stat_activity where backend_type = 'client backend'), \
    current_setting('max_connections')::int8";

/// Partitions are used through their tables, which is where rights are asked for.
const CLOSED: &str = "select c.relname::text from pg_class c \
    where c.relnamespace = to_regnamespace('consign') and c.relkind in ('r', 'p') and not c.relispartition \
    and not (has_table_privilege(c.oid, 'select') and has_table_privilege(c.oid, 'insert') \
        and has_table_privilege(c.oid, 'update') and has_table_privilege(c.oid, 'delete')) \
    order by 1";

const SETTINGS: &str = "select name::text, setting::text from pg_settings where name in \
    ('fsync', 'full_page_writes', 'synchronous_commit', 'autovacuum', 'track_counts') order by 1";

/// What has been open for longer than this is told.
const LONG: &str = "select pid, coalesce(usename::text, ''), extract(epoch from now() - xact_start)::int8 \
    from pg_stat_activity where datname = current_database() and xact_start < now() - interval '5 minutes' \
    and backend_type <> 'autovacuum worker' order by xact_start limit 10";

const PREPARED: &str = "select gid::text from pg_prepared_xacts \
    where database = current_database() and prepared < now() - interval '5 minutes' order by 1 limit 10";

/// Asks a database how it is. Nothing is changed.
pub async fn examine_postgres(
    address: &PostgresAddress,
    clock: &dyn Clock,
) -> Result<PostgresHealth, PostgresError> {
    let way = way(address)?;
    let client = way.connect().await?;
    let schema = address.schema();
    let of_schema = |sql: &str| sql.replace("'consign'", &format!("'{schema}'"));
    let asked = examine(&client, clock, &of_schema).await;
    asked.map_err(|source| PostgresError::Migrate { schema: schema.into(), source })
}

async fn examine(
    client: &Client,
    clock: &dyn Clock,
    of_schema: &dyn Fn(&str) -> String,
) -> Result<PostgresHealth, Error> {
    let rows = client.query_typed(&of_schema(LOOK), &[]).await?;
    let row = rows.first().expect("a select without a table has one row");
    let closed = client.query_typed(&of_schema(CLOSED), &[]).await?;
    let settings = client.query_typed(SETTINGS, &[]).await?;
    let long = client.query_typed(LONG, &[]).await?;
    let prepared = client.query_typed(PREPARED, &[]).await?;
    let (ahead_ms, round_trip) = clocks(client, clock).await?;
    Ok(PostgresHealth {
        version: row.try_get(0)?,
        version_number: row.try_get(1)?,
        role: row.try_get(2)?,
        superuser: row.try_get(3)?,
        schema_is_there: row.try_get(4)?,
        may_migrate: row.try_get(5)?,
        closed_tables: closed.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?,
        settings: settings.iter().map(pair).collect::<Result<_, _>>()?,
        sees_all: row.try_get(6)?,
        long_transactions: long.iter().map(transaction).collect::<Result<_, _>>()?,
        prepared: prepared.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?,
        ahead_ms,
        round_trip,
        connections: (row.try_get(7)?, row.try_get(8)?),
    })
}

fn pair(row: &Row) -> Result<(String, String), Error> {
    Ok((row.try_get(0)?, row.try_get(1)?))
}

fn transaction(row: &Row) -> Result<LongTransaction, Error> {
    Ok(LongTransaction { pid: row.try_get(0)?, role: row.try_get(1)?, seconds: row.try_get(2)? })
}

/// How far the database's clock is ahead of ours, as it was in the middle of a round trip.
async fn clocks(client: &Client, clock: &dyn Clock) -> Result<(i64, Duration), Error> {
    let before = clock.read();
    let sql = "select (extract(epoch from clock_timestamp()) * 1000)::int8";
    let rows = client.query_typed(sql, &[]).await?;
    let round_trip = clock.read().monotonic.saturating_sub(before.monotonic);
    let theirs: i64 = rows.first().expect("a select without a table has one row").try_get(0)?;
    let half = i64::try_from(round_trip.as_millis() / 2).unwrap_or(i64::MAX);
    Ok((theirs - before.wall.unix_ms() - half, round_trip))
}
