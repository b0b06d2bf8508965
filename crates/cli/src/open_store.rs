//! Opens the store: a file at once, a database perhaps after a while.

use crate::{args::StoreAddress, data_folder};
use anyhow::{Error, Result, anyhow};
use engine::{Backoff, TenantLimits};
use std::{sync::Arc, time::Duration};
use store::{
    Clock, Execute, Notification, Options, Postgres, PostgresAddress, PostgresError,
    PostgresOptions, RandomSource, Reply, Request, Sqlite, StartupLock, Store,
};
use tokio::runtime::Builder;
use tracing::warn;

/// A store, and the lock under which the first node makes keys and secrets. A file has one node,
/// which needs no lock.
pub(crate) type OpenedStore = (Arc<dyn Store>, Option<StartupLock>);

/// Opens the store for a node, and makes the data folder. Waits for a database that cannot be
/// reached yet.
pub(crate) async fn open(
    address: &StoreAddress,
    wait_max: Duration,
    tenant_limits: TenantLimits,
    clock: Arc<dyn Clock>,
    random: Arc<dyn RandomSource>,
) -> Result<OpenedStore> {
    data_folder::prepare(address)?;
    match address {
        StoreAddress::Sqlite(path) => {
            let store =
                Sqlite::open(path, clock, random, Options { tenant_limits, ..Options::default() })?;
            Ok((Arc::new(store), None))
        }
        StoreAddress::Postgres(address) => {
            let opened = open_database(address, wait_max, tenant_limits, clock, random).await;
            opened.map_err(|error| with_remedy(error, UNREACHABLE_REMEDY))
        }
    }
}

const UNREACHABLE_REMEDY: &str =
    "; start it, name another with --store, or have it waited for: --wait-for-store 60s";

/// Between tries. Jitter spreads nodes that were started together.
const BACKOFF: Backoff = Backoff::doubling(Duration::from_millis(100), Duration::from_secs(5));

async fn open_database(
    address: &PostgresAddress,
    wait_max: Duration,
    tenant_limits: TenantLimits,
    clock: Arc<dyn Clock>,
    random: Arc<dyn RandomSource>,
) -> Result<OpenedStore, PostgresError> {
    let deadline = clock.read().monotonic + wait_max;
    let mut failures = 0;
    loop {
        let options = PostgresOptions { tenant_limits, ..PostgresOptions::default() };
        let open_store = async {
            let store = Postgres::open(address, clock.clone(), random.clone(), options).await?;
            let startup_lock = address.startup_lock().await?;
            Ok((Arc::new(store) as Arc<dyn Store>, Some(startup_lock)))
        };
        let error: PostgresError = match open_store.await {
            Ok(opened) => return Ok(opened),
            Err(error) => error,
        };
        let remaining = deadline.saturating_sub(clock.read().monotonic);
        if remaining.is_zero() || !error.may_pass() {
            return Err(error);
        }
        let (error, seconds) = (format!("{:#}", Error::new(error)), remaining.as_secs());
        warn!(%address, error, "the database cannot be used yet; waiting for it, {seconds} s at most");
        failures += 1;
        tokio::time::sleep(BACKOFF.spread(failures, random.entropy()).min(remaining)).await;
    }
}

fn with_remedy(error: PostgresError, unreachable_remedy: &str) -> Error {
    let remedy = if error.may_pass() {
        unreachable_remedy
    } else if let PostgresError::Connect { .. } = error {
        "; user, password, database and sslmode are in the address of the store"
    } else if let PostgresError::Migrate { .. } = error {
        "; the role needs a schema of its own or the right to make one: docs/operating.md has the SQL"
    } else {
        ""
    };
    anyhow!("{:#}{remedy}", Error::new(error))
}

/// Runs one query from a command that has no runtime.
pub(crate) fn block_on<T>(query: impl Future<Output = Result<T, PostgresError>>) -> Result<T> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(query).map_err(with_remedy_now)
}

/// The error and its remedy, for a command that does not wait.
pub(crate) fn with_remedy_now(error: PostgresError) -> Error {
    with_remedy(error, "; start it, or name another with --store")
}

/// Opens a store for a command that does one thing with it.
pub(crate) async fn open_for_command(
    address: &StoreAddress,
    clock: Arc<dyn Clock>,
    random: Arc<dyn RandomSource>,
) -> Result<Arc<dyn Store>> {
    let (store, startup_lock) =
        open(address, Duration::ZERO, TenantLimits::default(), clock, random).await?;
    if let Some(startup_lock) = startup_lock {
        startup_lock.release().await;
    }
    Ok(store)
}

/// Executes one request in a transaction of its own, on a blocking thread: for a command that runs
/// no node.
pub(crate) async fn execute(store: Arc<dyn Execute>, request: Request) -> Result<Reply> {
    let work = move || store.execute(vec![request], Notification::default());
    let mut replies = tokio::task::spawn_blocking(work).await??;
    Ok(replies.pop().expect("one reply for each request"))
}
