//! The tables, and how they come to be: numbered migrations, run by whichever node comes first.

use super::{
    address::PostgresAddress,
    error::PostgresError,
    pool::Connector,
    sql::{self, Names},
    tls::Tls,
};
use crate::{Migration, Schema};
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio_postgres::{Client, error::SqlState};

const MIGRATIONS: &[(&str, &str)] = &[
    ("tables", include_str!("migrations/0001_tables.sql")),
    ("enqueue", include_str!("migrations/0002_enqueue.sql")),
];

/// The schema that this version makes.
const KNOWN: i64 = MIGRATIONS.len() as i64;

/// Says which schema a database has, without changing it.
pub async fn postgres_schema(address: &PostgresAddress) -> Result<Schema, PostgresError> {
    let way = way(address)?;
    let client = way.connect().await?;
    client.batch_execute(sql::BEGIN_PINNED).await.map_err(failed(&way))?;
    let found = found(&client, &way.names).await.map_err(failed(&way))?;
    client.batch_execute(sql::ROLLBACK).await.map_err(failed(&way))?;
    refuse_foreign(&found, &way)?;
    Ok(described(found.version, &way.names))
}

/// Brings a database up to date, and says what that took. Safe while nodes are at work: each migration says in its first
/// line whether older nodes can go on.
pub async fn migrate_postgres(address: &PostgresAddress) -> Result<Schema, PostgresError> {
    let way = way(address)?;
    let client = way.connect().await?;
    let version = migrate(&client, &way).await?;
    Ok(described(version, &way.names))
}

/// A connection to tables that are up to date, for a test that takes the clock in hand.
#[cfg(any(test, feature = "testing"))]
pub(crate) async fn clock_connection(
    address: &PostgresAddress,
) -> Result<(Client, Arc<Names>), PostgresError> {
    let way = way(address)?;
    let client = way.connect().await?;
    migrate(&client, &way).await?;
    Ok((client, way.names))
}

pub(super) fn way(address: &PostgresAddress) -> Result<Connector, PostgresError> {
    Ok(Connector {
        tls: Tls::new(&address.protection)?,
        names: Arc::new(Names { schema: address.schema().into() }),
        runtime: Handle::current(),
        made: Arc::default(),
        is_pooled: Arc::default(),
        address: address.clone(),
    })
}

/// What a database has.
#[derive(Default)]
struct Found {
    is_there: bool,
    tables: i64,
    version: i64,
    standby: bool,
    /// The schema's owner, where that is a role which may not do what it likes with ours.
    foreign_owner: Option<String>,
}

fn described(found: i64, names: &Names) -> Schema {
    let numbered = (1..).zip(MIGRATIONS.iter()).filter(|(number, _)| *number > found);
    let missing =
        numbered.map(|(number, (name, sql))| Migration { number, name, sql: names.of(sql) });
    Schema { found, known: KNOWN, missing: missing.collect() }
}

/// So often a migration begins again that met another node's: with many nodes that start at once,
/// one makes progress each time.
const ATTEMPTS_MAX: u32 = 20;

/// Runs what is missing, in one transaction, under a lock: of ten nodes that start at once, one does it and nine find it
/// done. Gives the version that was there before.
pub(super) async fn migrate(client: &Client, way: &Connector) -> Result<i64, PostgresError> {
    for _ in 1..ATTEMPTS_MAX {
        match try_migrate(client, way).await {
            Err(PostgresError::Migrate { source, .. }) if is_made_meanwhile(&source) => {}
            done => return done,
        }
    }
    try_migrate(client, way).await
}

async fn try_migrate(client: &Client, way: &Connector) -> Result<i64, PostgresError> {
    let failed = failed(way);
    client.batch_execute(sql::BEGIN_PINNED).await.map_err(&failed)?;
    let done = migrate_within(client, way).await;
    let end = if done.is_ok() { sql::COMMIT } else { sql::ROLLBACK };
    client.batch_execute(end).await.map_err(&failed)?;
    done
}

/// The lock is the table of migrations. A node that has to make it holds its name, and the
/// schema's, until it commits: others wait for that, fail, and find it made. An advisory lock would
/// do as well, but any role that may connect can take one and stop all starts.
async fn migrate_within(client: &Client, way: &Connector) -> Result<i64, PostgresError> {
    let failed = failed(way);
    let names = &way.names;
    let mut before = found(client, names).await.map_err(&failed)?;
    refuse_foreign(&before, way)?;
    if before.version == KNOWN {
        return Ok(KNOWN);
    }
    if !before.is_there {
        let create = format!("create schema {}", names.schema);
        client.batch_execute(&create).await.map_err(&failed)?;
    }
    if before.version == 0 {
        client.batch_execute(&names.of(TABLE_OF_MIGRATIONS)).await.map_err(&failed)?;
    } else {
        client.batch_execute(&names.of(LOCK)).await.map_err(&failed)?;
        before = found(client, names).await.map_err(&failed)?;
        refuse_foreign(&before, way)?;
    }
    for (number, (name, steps)) in (1..).zip(MIGRATIONS).filter(|(n, _)| *n > before.version) {
        client.batch_execute(&names.of(steps)).await.map_err(&failed)?;
        let note =
            format!("insert into consign.migration (number, name) values ({number}, '{name}')");
        client.batch_execute(&names.of(&note)).await.map_err(&failed)?;
    }
    Ok(before.version)
}

/// Whether another node has made the schema or its first table since this one looked.
fn is_made_meanwhile(error: &tokio_postgres::Error) -> bool {
    let made = [SqlState::UNIQUE_VIOLATION, SqlState::DUPLICATE_SCHEMA, SqlState::DUPLICATE_TABLE];
    error.code().is_some_and(|code| made.contains(code))
}

/// Readers go on.
const LOCK: &str = "lock table consign.migration in exclusive mode";

const TABLE_OF_MIGRATIONS: &str = "create table consign.migration \
    (number integer primary key, name text not null, at timestamptz not null default pg_catalog.now())";

const FOUND: &str = "select pg_catalog.to_regnamespace('consign') is not null, \
    (select pg_catalog.count(*) from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace \
     where n.nspname = 'consign' and c.relkind in ('r', 'p', 'v', 'm')), \
    pg_catalog.to_regclass('consign.migration') is not null, pg_catalog.pg_is_in_recovery(), \
    (select owner.rolname::text from pg_catalog.pg_namespace n \
     join pg_catalog.pg_roles owner on owner.oid = n.nspowner \
     join pg_catalog.pg_roles own on own.rolname = current_user \
     where n.nspname = 'consign' and owner.oid <> own.oid and not owner.rolsuper \
     and (own.rolsuper or not pg_catalog.pg_has_role(own.oid, owner.oid, 'usage')))";

const VERSION: &str = "select coalesce(pg_catalog.max(number), 0)::int8 from consign.migration";

/// Every question about the schema, for the test that reads what each of them means.
#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[FOUND, VERSION];

/// A statement that names the schema as a text, with the schema of the address.
pub(super) fn of_schema(sql: &str, schema: &str) -> String {
    sql.replace("'consign'", &format!("'{schema}'")).replace("consign.", &format!("{schema}."))
}

/// What is there, as one may ask who owns nothing of it.
async fn found(client: &Client, names: &Names) -> Result<Found, tokio_postgres::Error> {
    let rows = client.query_typed(&of_schema(FOUND, &names.schema), &[]).await?;
    let Some(row) = rows.first() else {
        return Ok(Found::default());
    };
    let mut found = Found {
        is_there: row.try_get(0)?,
        tables: row.try_get(1)?,
        version: 0,
        standby: row.try_get(3)?,
        foreign_owner: row.try_get(4)?,
    };
    if row.try_get(2)? {
        let rows = client.query_typed(&names.of(VERSION), &[]).await?;
        found.version = rows.first().map_or(Ok(0), |row| row.try_get(0))?;
    }
    Ok(found)
}

fn refuse_foreign(found: &Found, way: &Connector) -> Result<(), PostgresError> {
    let schema = way.names.schema.clone();
    if found.standby {
        return Err(PostgresError::Standby { place: way.address.place() });
    }
    if found.version > KNOWN {
        return Err(PostgresError::TooNew { schema, found: found.version, known: KNOWN });
    }
    if found.version == 0 && found.tables > 0 {
        return Err(PostgresError::NotOurs { schema });
    }
    if let Some(owner) = found.foreign_owner.clone().filter(|_| found.version == 0) {
        // The owner of a schema may replace everything in it, and what it puts there runs as us.
        return Err(PostgresError::ForeignOwner { schema, owner });
    }
    Ok(())
}

fn failed(way: &Connector) -> impl Fn(tokio_postgres::Error) -> PostgresError + use<> {
    let schema = way.names.schema.clone();
    move |source| PostgresError::Migrate { schema: schema.clone(), source }
}
