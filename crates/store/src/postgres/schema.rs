//! The tables, and how they are made: numbered migrations, run by the first node that starts.

use super::{
    address::PostgresAddress,
    error::PostgresError,
    pool::Connector,
    sql::{self, Names},
    tls::Tls,
};
use crate::Schema;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio_postgres::{Client, error::SqlState};

const MIGRATIONS: &[(&str, &str)] = &[
    ("tables", include_str!("migrations/0001_tables.sql")),
    ("enqueue", include_str!("migrations/0002_enqueue.sql")),
];

/// The schema version that this build makes.
const NEWEST_VERSION: i64 = MIGRATIONS.len() as i64;

/// Returns the schema of a database, without changing it.
pub async fn postgres_schema(address: &PostgresAddress) -> Result<Schema, PostgresError> {
    let connector = connector(address)?;
    let client = connector.connect().await?;
    client.batch_execute(sql::BEGIN_PINNED).await.map_err(failed(&connector))?;
    let found = existing_schema(&client, &connector.names).await.map_err(failed(&connector))?;
    client.batch_execute(sql::ROLLBACK).await.map_err(failed(&connector))?;
    refuse_unusable(&found, &connector)?;
    Ok(Schema::of(found.version, MIGRATIONS, |sql| connector.names.of(sql)))
}

/// Brings a database up to date, and returns what was missing. Safe while nodes run: each migration
/// says in its first lines whether older nodes can go on.
pub async fn migrate_postgres(address: &PostgresAddress) -> Result<Schema, PostgresError> {
    let connector = connector(address)?;
    let client = connector.connect().await?;
    let version = migrate(&client, &connector).await?;
    Ok(Schema::of(version, MIGRATIONS, |sql| connector.names.of(sql)))
}

/// A connection to tables that are up to date, for a test that controls the clock.
#[cfg(any(test, feature = "testing"))]
pub(crate) async fn clock_connection(
    address: &PostgresAddress,
) -> Result<(Client, Arc<Names>), PostgresError> {
    let connector = connector(address)?;
    let client = connector.connect().await?;
    migrate(&client, &connector).await?;
    Ok((client, connector.names))
}

pub(super) fn connector(address: &PostgresAddress) -> Result<Connector, PostgresError> {
    Ok(Connector {
        tls: Tls::new(&address.protection)?,
        names: Arc::new(Names { schema: address.schema().into() }),
        runtime: Handle::current(),
        connections_made: Arc::default(),
        is_pooled: Arc::default(),
        address: address.clone(),
    })
}

/// What the database has.
#[derive(Default)]
struct ExistingSchema {
    exists: bool,
    tables: i64,
    version: i64,
    is_standby: bool,
    /// The schema's owner, if it is a role that could not change our objects otherwise.
    foreign_owner: Option<String>,
}

/// A migration that collides with another node's begins again, at most this often. With many nodes
/// that start at once, one makes progress each time.
const ATTEMPTS_MAX: u32 = 20;

/// Runs the missing migrations in one transaction, under a lock: of ten nodes that start at once,
/// one runs them and nine find them done. Returns the version that was there before.
pub(super) async fn migrate(client: &Client, connector: &Connector) -> Result<i64, PostgresError> {
    for _ in 1..ATTEMPTS_MAX {
        match try_migrate(client, connector).await {
            Err(PostgresError::Migrate { source, .. }) if was_made_meanwhile(&source) => {}
            done => return done,
        }
    }
    try_migrate(client, connector).await
}

async fn try_migrate(client: &Client, connector: &Connector) -> Result<i64, PostgresError> {
    let failed = failed(connector);
    client.batch_execute(sql::BEGIN_PINNED).await.map_err(&failed)?;
    let done = migrate_within(client, connector).await;
    let end = if done.is_ok() { sql::COMMIT } else { sql::ROLLBACK };
    client.batch_execute(end).await.map_err(&failed)?;
    done
}

/// The lock is the table of migrations. A node that creates the table holds a lock on its name, and
/// on the schema's, until it commits: the others wait, fail, and find it made. An advisory lock
/// would work as well, but any role that may connect can take one and stop all starts.
async fn migrate_within(client: &Client, connector: &Connector) -> Result<i64, PostgresError> {
    let failed = failed(connector);
    let names = &connector.names;
    let mut existing = existing_schema(client, names).await.map_err(&failed)?;
    refuse_unusable(&existing, connector)?;
    if existing.version == NEWEST_VERSION {
        return Ok(NEWEST_VERSION);
    }
    if !existing.exists {
        let create = format!("create schema {}", names.schema);
        client.batch_execute(&create).await.map_err(&failed)?;
    }
    if existing.version == 0 {
        client.batch_execute(&names.of(MIGRATIONS_TABLE)).await.map_err(&failed)?;
    } else {
        client.batch_execute(&names.of(MIGRATIONS_LOCK)).await.map_err(&failed)?;
        existing = existing_schema(client, names).await.map_err(&failed)?;
        refuse_unusable(&existing, connector)?;
    }
    for (number, (name, steps)) in (1..).zip(MIGRATIONS).filter(|(n, _)| *n > existing.version) {
        client.batch_execute(&names.of(steps)).await.map_err(&failed)?;
        let insert =
            format!("insert into consign.migration (number, name) values ({number}, '{name}')");
        client.batch_execute(&names.of(&insert)).await.map_err(&failed)?;
    }
    Ok(existing.version)
}

/// Whether another node has made the schema or its first table since this node checked.
fn was_made_meanwhile(error: &tokio_postgres::Error) -> bool {
    let codes = [SqlState::UNIQUE_VIOLATION, SqlState::DUPLICATE_SCHEMA, SqlState::DUPLICATE_TABLE];
    error.code().is_some_and(|code| codes.contains(code))
}

/// Does not block readers.
const MIGRATIONS_LOCK: &str = "lock table consign.migration in exclusive mode";

const MIGRATIONS_TABLE: &str = "create table consign.migration \
    (number integer primary key, name text not null, applied_at timestamptz not null default pg_catalog.now())";

const EXISTING_SCHEMA: &str = "select pg_catalog.to_regnamespace('consign') is not null, \
    (select pg_catalog.count(*) from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace \
     where n.nspname = 'consign' and c.relkind in ('r', 'p', 'v', 'm')), \
    pg_catalog.to_regclass('consign.migration') is not null, pg_catalog.pg_is_in_recovery(), \
    (select owner.rolname::text from pg_catalog.pg_namespace n \
     join pg_catalog.pg_roles owner on owner.oid = n.nspowner \
     join pg_catalog.pg_roles own on own.rolname = current_user \
     where n.nspname = 'consign' and owner.oid <> own.oid and not owner.rolsuper \
     and (own.rolsuper or not pg_catalog.pg_has_role(own.oid, owner.oid, 'usage')))";

const VERSION: &str = "select coalesce(pg_catalog.max(number), 0)::int8 from consign.migration";

/// Every statement about the schema, for the test that checks what each name in them refers to.
#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[EXISTING_SCHEMA, VERSION];

/// A statement that has the schema's name in a string, with the schema of the address.
pub(super) fn of_schema(sql: &str, schema: &str) -> String {
    sql.replace("'consign'", &format!("'{schema}'")).replace("consign.", &format!("{schema}."))
}

/// What the database has, by queries that need no rights on the schema.
async fn existing_schema(
    client: &Client,
    names: &Names,
) -> Result<ExistingSchema, tokio_postgres::Error> {
    let rows = client.query_typed(&of_schema(EXISTING_SCHEMA, &names.schema), &[]).await?;
    let Some(row) = rows.first() else {
        return Ok(ExistingSchema::default());
    };
    let mut found = ExistingSchema {
        exists: row.try_get(0)?,
        tables: row.try_get(1)?,
        version: 0,
        is_standby: row.try_get(3)?,
        foreign_owner: row.try_get(4)?,
    };
    if row.try_get(2)? {
        let rows = client.query_typed(&names.of(VERSION), &[]).await?;
        found.version = rows.first().map_or(Ok(0), |row| row.try_get(0))?;
    }
    Ok(found)
}

fn refuse_unusable(found: &ExistingSchema, connector: &Connector) -> Result<(), PostgresError> {
    let schema = connector.names.schema.clone();
    if found.is_standby {
        return Err(PostgresError::Standby { database: connector.address.database() });
    }
    if found.version > NEWEST_VERSION {
        return Err(PostgresError::TooNew { schema, found: found.version, known: NEWEST_VERSION });
    }
    if found.version == 0 && found.tables > 0 {
        return Err(PostgresError::NotOurs { schema });
    }
    if let Some(owner) = found.foreign_owner.clone().filter(|_| found.version == 0) {
        // The owner of a schema may replace every object in it, and its replacements would run with
        // our rights.
        return Err(PostgresError::ForeignOwner { schema, owner });
    }
    Ok(())
}

fn failed(connector: &Connector) -> impl Fn(tokio_postgres::Error) -> PostgresError + use<> {
    let schema = connector.names.schema.clone();
    move |source| PostgresError::Migrate { schema: schema.clone(), source }
}
