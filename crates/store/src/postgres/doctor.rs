//! What a database reports about itself, for `consign doctor`. This module judges nothing.

use super::{
    address::PostgresAddress,
    error::PostgresError,
    schema::{connector, of_schema},
    sql,
};
use crate::clock::Clock;
use std::time::Duration;
use tokio_postgres::{Client, Error, Row};

/// A database as it is now.
#[derive(Clone, Debug)]
pub struct PostgresHealth {
    /// As in `16.4`.
    pub version: String,
    /// As in `160004`.
    pub version_number: i32,
    /// The role that we connect as.
    pub role: String,
    /// Whether that role is a superuser, which is more than Consign needs.
    pub superuser: bool,
    /// Whether our schema is there.
    pub schema_is_there: bool,
    /// Whether the role may create objects in our schema; if there is no schema, whether it may
    /// create one.
    pub may_migrate: bool,
    /// Tables of ours on which the role lacks a right that a node needs.
    pub closed_tables: Vec<String>,
    /// Functions of ours that the role may not call.
    pub closed_functions: Vec<String>,
    /// Other roles that may create in our schema or in `public`.
    pub creators: Vec<Creator>,
    /// The owner of the schema, if it is not the role that created our tables.
    pub foreign_owner: Option<String>,
    /// Settings that matter, with their values.
    pub settings: Vec<(String, String)>,
    /// Whether our role sees the transactions of other roles.
    pub sees_all: bool,
    /// Transactions that have been open for long and hold back vacuum, oldest first.
    pub long_transactions: Vec<LongTransaction>,
    /// Prepared transactions that were never ended.
    pub prepared: Vec<String>,
    /// How far the database's clock is ahead of ours, in milliseconds, to within half a round trip.
    pub ahead_ms: i64,
    /// How long a round trip took.
    pub round_trip: Duration,
    /// The open connections of all clients, and the limit.
    pub connections: (i64, i64),
}

/// A role that may create objects in a schema, and is neither its owner nor a superuser.
#[derive(Clone, Debug)]
pub struct Creator {
    /// The schema.
    pub schema: String,
    /// The role, or `None` if every role may.
    pub role: Option<String>,
}

/// A transaction that has been open for long.
#[derive(Clone, Debug)]
pub struct LongTransaction {
    /// The process id at the server.
    pub pid: i32,
    /// The role.
    pub role: String,
    /// How long it has been open, in seconds.
    pub seconds: i64,
}

const OVERVIEW: &str = "select pg_catalog.current_setting('server_version'), \
    pg_catalog.current_setting('server_version_num')::int4, \
    current_user::text, (select rolsuper from pg_catalog.pg_roles where rolname = current_user), \
    pg_catalog.to_regnamespace('consign') is not null, \
    case when pg_catalog.to_regnamespace('consign') is null \
        then pg_catalog.has_database_privilege(pg_catalog.current_database(), 'create') \
        else pg_catalog.has_schema_privilege(pg_catalog.to_regnamespace('consign')::oid, 'create') end, \
    pg_catalog.pg_has_role(current_user, 'pg_read_all_stats', 'member'), \
    (select pg_catalog.count(*) from pg_catalog.pg_stat_activity where backend_type = 'client backend'), \
    pg_catalog.current_setting('max_connections')::int8";

/// Partitions are used through their parent tables, so rights are checked on those.
const CLOSED_TABLES: &str = "select c.relname::text from pg_catalog.pg_class c \
    where c.relnamespace = pg_catalog.to_regnamespace('consign')::oid \
    and c.relkind in ('r', 'p') and not c.relispartition \
    and not (pg_catalog.has_table_privilege(c.oid, 'select') and pg_catalog.has_table_privilege(c.oid, 'insert') \
        and pg_catalog.has_table_privilege(c.oid, 'update') and pg_catalog.has_table_privilege(c.oid, 'delete')) \
    order by 1";

const CLOSED_FUNCTIONS: &str = "select p.proname::text from pg_catalog.pg_proc p \
    where p.pronamespace = pg_catalog.to_regnamespace('consign')::oid \
    and not pg_catalog.has_function_privilege(p.oid, 'execute') order by 1";

/// Owners and superusers are left out: they may do everything anyway. 0 stands for PUBLIC.
const CREATORS: &str = "select n.nspname::text, \
        case when a.grantee = 0::oid then null else pg_catalog.pg_get_userbyid(a.grantee)::text end \
    from pg_catalog.pg_namespace n \
    cross join lateral pg_catalog.aclexplode( \
        coalesce(n.nspacl, pg_catalog.acldefault('n'::\"char\", n.nspowner))) a \
    where (n.nspname = 'public' or n.nspname = 'consign') and a.privilege_type = 'CREATE' \
    and a.grantee <> n.nspowner and not exists (select from pg_catalog.pg_roles r \
        where r.oid = a.grantee and (r.rolsuper or r.rolname = current_user)) \
    order by 1, 2";

/// The owner of a schema may replace every object in it. Superusers are left out: they may do
/// everything anyway.
const FOREIGN_OWNER: &str = "select owner.rolname::text from pg_catalog.pg_namespace n \
    join pg_catalog.pg_class c on c.relnamespace = n.oid and c.relname = 'migration' \
    join pg_catalog.pg_roles owner on owner.oid = n.nspowner \
    where n.nspname = 'consign' and c.relowner <> n.nspowner and not owner.rolsuper";

const SETTINGS: &str = "select name::text, setting::text from pg_catalog.pg_settings where name in \
    ('fsync', 'full_page_writes', 'synchronous_commit', 'autovacuum', 'track_counts') order by 1";

/// Lists transactions that have been open for longer than this.
const LONG_TRANSACTIONS: &str = "select pid, coalesce(usename::text, ''), extract(epoch from pg_catalog.now() - xact_start)::int8 \
    from pg_catalog.pg_stat_activity where datname = pg_catalog.current_database() \
    and xact_start < pg_catalog.now() - interval '5 minutes' \
    and backend_type <> 'autovacuum worker' order by xact_start limit 10";

const PREPARED: &str = "select gid::text from pg_catalog.pg_prepared_xacts \
    where database = pg_catalog.current_database() \
    and prepared < pg_catalog.now() - interval '5 minutes' order by 1 limit 10";

const CLOCK: &str =
    "select (extract(epoch from pg_catalog.clock_timestamp())::numeric * 1000::numeric)::int8";

/// Every statement of the examination, for the test that checks what each name in them refers to.
#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[
    OVERVIEW,
    CLOSED_TABLES,
    CLOSED_FUNCTIONS,
    CREATORS,
    FOREIGN_OWNER,
    SETTINGS,
    LONG_TRANSACTIONS,
    PREPARED,
    CLOCK,
];

/// Examines a database without changing it.
pub async fn examine_postgres(
    address: &PostgresAddress,
    clock: &dyn Clock,
) -> Result<PostgresHealth, PostgresError> {
    let connector = connector(address)?;
    let client = connector.connect().await?;
    let schema = address.schema();
    let examined = examine(&client, clock, &|sql| of_schema(sql, schema)).await;
    examined.map_err(|source| PostgresError::Migrate { schema: schema.into(), source })
}

async fn examine(
    client: &Client,
    clock: &dyn Clock,
    of_schema: &dyn Fn(&str) -> String,
) -> Result<PostgresHealth, Error> {
    client.batch_execute(sql::BEGIN_PINNED).await?;
    let rows = client.query_typed(&of_schema(OVERVIEW), &[]).await?;
    let row = rows.first().expect("a select without a table has one row");
    let name = |row: &Row| row.try_get(0);
    let creator = |row: &Row| Ok(Creator { schema: row.try_get(0)?, role: row.try_get(1)? });
    let setting = |row: &Row| Ok((row.try_get(0)?, row.try_get(1)?));
    let (ahead_ms, round_trip) = clocks(client, clock).await?;
    Ok(PostgresHealth {
        version: row.try_get(0)?,
        version_number: row.try_get(1)?,
        role: row.try_get(2)?,
        superuser: row.try_get(3)?,
        schema_is_there: row.try_get(4)?,
        may_migrate: row.try_get(5)?,
        closed_tables: rows_of(client, &of_schema(CLOSED_TABLES), name).await?,
        closed_functions: rows_of(client, &of_schema(CLOSED_FUNCTIONS), name).await?,
        creators: rows_of(client, &of_schema(CREATORS), creator).await?,
        foreign_owner: rows_of(client, &of_schema(FOREIGN_OWNER), name).await?.pop(),
        settings: rows_of(client, SETTINGS, setting).await?,
        sees_all: row.try_get(6)?,
        long_transactions: rows_of(client, LONG_TRANSACTIONS, transaction).await?,
        prepared: rows_of(client, PREPARED, name).await?,
        ahead_ms,
        round_trip,
        connections: (row.try_get(7)?, row.try_get(8)?),
    })
}

async fn rows_of<T>(
    client: &Client,
    sql: &str,
    read: impl Fn(&Row) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    client.query_typed(sql, &[]).await?.iter().map(read).collect()
}

fn transaction(row: &Row) -> Result<LongTransaction, Error> {
    Ok(LongTransaction { pid: row.try_get(0)?, role: row.try_get(1)?, seconds: row.try_get(2)? })
}

/// How far the database's clock is ahead of ours, taken in the middle of a round trip.
async fn clocks(client: &Client, clock: &dyn Clock) -> Result<(i64, Duration), Error> {
    let before = clock.read();
    let rows = client.query_typed(CLOCK, &[]).await?;
    let round_trip = clock.read().monotonic.saturating_sub(before.monotonic);
    let theirs: i64 = rows.first().expect("a select without a table has one row").try_get(0)?;
    let half = i64::try_from(round_trip.as_millis() / 2).unwrap_or(i64::MAX);
    Ok((theirs - before.wall.unix_ms() - half, round_trip))
}
