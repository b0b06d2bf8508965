//! The schemas of a run in an existing database: created when it begins, dropped when it ends.

use crate::{
    Error,
    error::{failed, in_database},
    run_folder::STORES,
};
use std::sync::Arc;
use store::PostgresAddress;
use tokio::runtime::Builder;
use tokio_postgres::{Client, types::FromSqlOwned};

/// A database in which a run creates schemas of its own.
pub(crate) struct Database {
    address: Arc<PostgresAddress>,
    prefix: String,
}

/// One schema of a run, with one store in it.
#[derive(Clone)]
pub(crate) struct BenchSchema {
    pub(crate) address: Arc<PostgresAddress>,
    pub(crate) name: String,
}

/// How long, and how often, the run waits for a schema that is in use.
const DROP: &str = "set lock_timeout = '5s'; set client_min_messages = warning; ";
const DROPS_MAX: usize = 5;
const UNREACHED: &str = "the database to measure with cannot be reached";

impl Database {
    /// Checks that no schema of that name exists.
    pub(crate) fn at(address: &str) -> Result<Self, Error> {
        let prefix = format!("consign_bench_{}", std::process::id());
        let address = Arc::new(address.parse().map_err(failed(UNREACHED))?);
        let database = Database { address, prefix };
        wait(async {
            for store in STORES {
                let schema = database.schema(store)?;
                if !schema.is_new().await? {
                    return Err(Error::SchemaExists(schema.name));
                }
            }
            Ok(())
        })?;
        Ok(database)
    }

    pub(crate) fn shown(&self) -> String {
        format!("the schema {}, and two beside it", self.prefix)
    }

    fn schema(&self, store: &str) -> Result<BenchSchema, Error> {
        let name = format!("{}{}", self.prefix, store.replace('-', "_"));
        let address = self.address.with_schema(&name).map_err(failed(UNREACHED))?;
        Ok(BenchSchema { address: Arc::new(address), name })
    }

    /// The empty schema of one of [`STORES`]; opening a store creates it.
    pub(crate) fn fresh(&self, store: &str) -> Result<BenchSchema, Error> {
        let schema = self.schema(store)?;
        wait(schema.remove())?;
        Ok(schema)
    }

    pub(crate) fn clear(&self) {
        // No caller is left to report an error to; the run named the schemas when it started.
        STORES.iter().for_each(|store| drop(self.fresh(store)));
    }
}

impl BenchSchema {
    /// A connection with this schema as its search path; `settings` look like `name=value,
    /// name=value`.
    pub(crate) async fn connect(&self, settings: &str) -> Result<Client, Error> {
        let client = self.address.connect().await.map_err(failed(UNREACHED))?;
        let path = format!("search_path={}", self.name);
        let all = settings.split(", ").filter(|one| !one.is_empty()).chain([path.as_str()]);
        let all: Vec<String> = all.map(|one| format!("set {one}")).collect();
        client
            .batch_execute(&all.join(";"))
            .await
            .map_err(in_database("setting up a connection"))?;
        Ok(client)
    }

    pub(crate) async fn make(&self, tables: &str) -> Result<(), Error> {
        let sql = format!("create schema {}; {tables}", self.name);
        let client = self.connect("").await?;
        client.batch_execute(&sql).await.map_err(in_database("making a schema"))
    }

    /// Whether no schema of this name exists.
    pub(crate) async fn is_new(&self) -> Result<bool, Error> {
        const SQL: &str = "select to_regnamespace($1) is null";
        answer(&self.connect("").await?, SQL, &self.name, "looking for a schema").await
    }

    /// Asks the server for a checkpoint. Many users may not run one; then the server takes its
    /// time.
    pub(crate) async fn settle(&self) -> Result<(), Error> {
        let client = self.connect("").await?;
        drop(client.batch_execute("checkpoint").await);
        Ok(())
    }

    /// Its size on disk, with indexes and out-of-line values.
    pub(crate) async fn bytes(&self) -> Result<u64, Error> {
        const SQL: &str = "select coalesce(sum(pg_total_relation_size(oid)), 0)::bigint \
            from pg_class where relnamespace = to_regnamespace($1) and relkind = 'r'";
        let client = self.connect("").await?;
        let bytes: i64 = answer(&client, SQL, &self.name, "weighing a schema").await?;
        Ok(bytes.unsigned_abs())
    }

    async fn remove(&self) -> Result<(), Error> {
        let sql = format!("{DROP} drop schema if exists {} cascade", self.name);
        let client = self.connect("").await?;
        for _ in 1..DROPS_MAX {
            if client.batch_execute(&sql).await.is_ok() {
                return Ok(());
            }
        }
        client.batch_execute(&sql).await.map_err(in_database("removing a schema"))
    }
}

pub(crate) struct PostgresInfo {
    pub(crate) version: String,
    /// Its durability settings, by name: [`DURABILITY_SETTINGS`].
    pub(crate) durability: Vec<(&'static str, String)>,
}

/// The settings without which a commit is not durable.
const DURABILITY_SETTINGS: [&str; 3] = ["fsync", "synchronous_commit", "full_page_writes"];

impl PostgresInfo {
    pub(crate) fn of(database: &Database) -> Result<Self, Error> {
        wait(async {
            let client = database.address.connect().await.map_err(failed(UNREACHED))?;
            let shown = async |name: &str| {
                answer(&client, "select current_setting($1)", name, "asking for a setting").await
            };
            let version: String = shown("server_version").await?;
            // Distributions add a name of their own.
            let version = version.split(' ').next().unwrap_or_default().to_owned();
            let mut durability = Vec::new();
            for name in DURABILITY_SETTINGS {
                durability.push((name, shown(name).await?));
            }
            Ok(PostgresInfo { version, durability })
        })
    }

    pub(crate) fn headline(&self) -> String {
        let settings = self.durability.iter().map(|(name, value)| format!("{name}={value}"));
        let settings: Vec<String> = settings.take(2).collect();
        format!("PostgreSQL {} · {}", self.version, settings.join(" "))
    }

    /// The settings that are off and must be on.
    pub(crate) fn not_durable(&self) -> Vec<String> {
        let off = self.durability.iter().filter(|(_, value)| !is_durable(value));
        off.map(|(name, value)| format!("{name}={value}")).collect()
    }
}

/// `local` is durable on this disk; the others also wait for a replica.
fn is_durable(value: &str) -> bool {
    ["on", "local", "remote_write", "remote_apply"].contains(&value)
}

/// The single value that a query about one name returns.
async fn answer<T: FromSqlOwned>(
    client: &Client,
    sql: &str,
    name: &str,
    doing: &'static str,
) -> Result<T, Error> {
    Ok(client.query_one(sql, &[&name]).await.map_err(in_database(doing))?.get(0))
}

/// Runs `work` from outside any task, on a runtime of its own.
fn wait<T>(work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(failed("starting a thread for tasks"))?;
    runtime.block_on(work)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_postgres_without_durable_commits_is_reported() {
        let server = |fsync: &str, commit: &str| {
            let settings = [("fsync", fsync), ("synchronous_commit", commit)];
            let durability = settings.map(|(name, value)| (name, value.to_owned())).into();
            PostgresInfo { version: "15.8".into(), durability }.not_durable()
        };
        assert!(server("on", "on").is_empty() && server("on", "remote_apply").is_empty());
        assert_eq!(server("off", "off"), ["fsync=off", "synchronous_commit=off"]);
    }
}
