//! The tables, and how they come to be: numbered migrations, run by whichever node comes first.

use super::{address::PostgresAddress, error::PostgresError, pool::Way, sql::Names, tls::Tls};
use crate::form::facet;
use crate::{Migration, Schema};
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio_postgres::Client;

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
    let found = found(&client, &way.names).await.map_err(failed(&way))?;
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
pub(crate) async fn clock_connection(
    address: &PostgresAddress,
) -> Result<(Client, Arc<Names>), PostgresError> {
    let way = way(address)?;
    let client = way.connect().await?;
    migrate(&client, &way).await?;
    Ok((client, way.names))
}

pub(super) fn way(address: &PostgresAddress) -> Result<Way, PostgresError> {
    Ok(Way {
        tls: Tls::new(&address.trust)?,
        names: Arc::new(Names::new(address.schema())),
        runtime: Handle::current(),
        made: Arc::default(),
        is_pooled: Arc::default(),
        address: address.clone(),
    })
}

/// What a database has.
struct Found {
    is_there: bool,
    tables: i64,
    version: i64,
    standby: bool,
}

fn described(found: i64, names: &Names) -> Schema {
    let numbered = (1..).zip(MIGRATIONS.iter()).filter(|(number, _)| *number > found);
    let missing =
        numbered.map(|(number, (name, sql))| Migration { number, name, sql: names.of(sql) });
    Schema { found, known: KNOWN, missing: missing.collect() }
}

/// Runs what is missing, in one transaction, under a lock: of ten nodes that start at once, one does it and nine find it
/// done. Gives the version that was there before.
pub(super) async fn migrate(client: &Client, way: &Way) -> Result<i64, PostgresError> {
    let failed = failed(way);
    let before = found(client, &way.names).await.map_err(&failed)?;
    refuse_foreign(&before, way)?;
    if before.version == KNOWN {
        return Ok(KNOWN);
    }
    client.batch_execute("begin").await.map_err(&failed)?;
    let done = migrate_within(client, way).await;
    let end = if done.is_ok() { "commit" } else { "rollback" };
    client.batch_execute(end).await.map_err(&failed)?;
    done
}

async fn migrate_within(client: &Client, way: &Way) -> Result<i64, PostgresError> {
    let failed = failed(way);
    let names = &way.names;
    let lock = facet::of_name(&["migrate", names.schema()]);
    let lock = format!("select pg_advisory_xact_lock({lock})");
    client.batch_execute(&lock).await.map_err(&failed)?;
    let before = found(client, names).await.map_err(&failed)?;
    refuse_foreign(&before, way)?;
    if !before.is_there {
        let create = format!("create schema {}", names.schema());
        client.batch_execute(&create).await.map_err(&failed)?;
    }
    if before.version == 0 {
        client.batch_execute(&names.of(TABLE_OF_MIGRATIONS)).await.map_err(&failed)?;
    }
    for (number, (name, sql)) in (1..).zip(MIGRATIONS).filter(|(n, _)| *n > before.version) {
        client.batch_execute(&names.of(sql)).await.map_err(&failed)?;
        let note =
            format!("insert into consign.migration (number, name) values ({number}, '{name}')");
        client.batch_execute(&names.of(&note)).await.map_err(&failed)?;
    }
    Ok(before.version)
}

const TABLE_OF_MIGRATIONS: &str = "create table consign.migration \
    (number integer primary key, name text not null, at timestamptz not null default now())";

/// What is there, as one may ask who owns nothing of it.
async fn found(client: &Client, names: &Names) -> Result<Found, tokio_postgres::Error> {
    let sql = format!(
        "select to_regnamespace('{0}') is not null, \
         (select count(*) from pg_class c join pg_namespace n on n.oid = c.relnamespace \
          where n.nspname = '{0}' and c.relkind in ('r', 'p', 'v', 'm')), \
         to_regclass('{0}.migration') is not null, pg_is_in_recovery()",
        names.schema()
    );
    let rows = client.query_typed(&sql, &[]).await?;
    let Some(row) = rows.first() else {
        return Ok(Found { is_there: false, tables: 0, version: 0, standby: false });
    };
    let mut found = Found {
        is_there: row.try_get(0)?,
        tables: row.try_get(1)?,
        version: 0,
        standby: row.try_get(3)?,
    };
    if row.try_get(2)? {
        let sql = names.of("select coalesce(max(number), 0)::int8 from consign.migration");
        let rows = client.query_typed(&sql, &[]).await?;
        found.version = rows.first().map_or(Ok(0), |row| row.try_get(0))?;
    }
    Ok(found)
}

fn refuse_foreign(found: &Found, way: &Way) -> Result<(), PostgresError> {
    let schema = way.names.schema().to_owned();
    if found.standby {
        return Err(PostgresError::Standby { place: way.address.place() });
    }
    if found.version > KNOWN {
        return Err(PostgresError::TooNew { schema, found: found.version, known: KNOWN });
    }
    if found.version == 0 && found.tables > 0 {
        return Err(PostgresError::NotOurs { schema });
    }
    Ok(())
}

fn failed(way: &Way) -> impl Fn(tokio_postgres::Error) -> PostgresError + use<> {
    let schema = way.names.schema().to_owned();
    move |source| PostgresError::Migrate { schema: schema.clone(), source }
}
