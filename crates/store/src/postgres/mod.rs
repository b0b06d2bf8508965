//! The store for many machines: one schema of a PostgreSQL database, any number of equal nodes.
//!
//! A batch is one transaction ([`execute`]): it takes locks in one order, loads everything, reads
//! the clock, asks the engine, and writes and commits everything in few round trips. A batch of
//! only new jobs takes one ([`fast_submit`]). Several batches run side by side. If no answer to a
//! commit comes, the node determines its outcome on another connection ([`commit`]). Every row that
//! matters is sealed, as in the embedded store.

mod address;
mod audit;
mod batch_plan;
mod begin;
mod claim;
mod claim_cursors;
mod commit;
mod doctor;
mod erase;
mod error;
mod execute;
mod fast_submit;
mod inbox;
mod lease_cache;
mod list;
mod load;
mod locks;
mod maintenance;
mod nodes;
mod notification;
mod pending;
#[cfg(test)]
mod plans;
mod pool;
mod queues;
mod reads;
mod records;
mod save;
mod schema;
mod session;
mod settings_cache;
mod sql;
mod startup_lock;
mod store;
#[cfg(test)]
pub(crate) mod tests;
mod time;
mod tls;
mod transaction;
mod uuid;
mod values;
mod verify;
mod workers;
mod writer_connection;

pub use address::PostgresAddress;
pub use doctor::{Creator, LongTransaction, PostgresHealth, examine_postgres};
pub use error::PostgresError;
#[cfg(any(test, feature = "testing"))]
pub(crate) use schema::clock_connection;
pub use schema::{migrate_postgres, postgres_schema};
pub use startup_lock::StartupLock;
pub use verify::verify_postgres_audit;

use crate::{
    clock::Clock, job_cache::JobCache, node::NodeRole, random::RandomSource, store::StoreError,
    workers::Workers,
};
use claim_cursors::ClaimCursors;
use engine::{Scope, TenantLimits, Timestamp};
use error::Result;
use fast_submit::EventSeqStock;
use lease_cache::LeasedRow;
use notification::NotificationQueue;
use pool::{Pool, PooledConnection};
use settings_cache::SettingsCache;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, RwLock},
};
use tokio::{runtime::Handle, task::JoinHandle};
use uuid::Xid;
use writer_connection::WriterConnections;

/// A store in a database that many nodes share. It works on the tokio runtime that opened it, and
/// on threads that may be blocked ([`Execute::execute`](crate::Execute::execute)); reads may come
/// from any runtime.
pub struct Postgres {
    inner: Arc<Inner>,
    notifications: Arc<NotificationQueue>,
    listen_task: JoinHandle<()>,
    inbox_task: JoinHandle<()>,
}

/// How a store is opened: how many connections it has, and the limits of a tenant.
#[derive(Clone, Debug)]
pub struct PostgresOptions {
    /// Batches that run side by side, unless the address sets the number.
    pub writers: usize,
    /// Reads that run side by side.
    pub readers: usize,
    /// The limits of one tenant.
    pub tenant_limits: TenantLimits,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        PostgresOptions { writers: 4, readers: 4, tenant_limits: TenantLimits::default() }
    }
}

/// What all reads and batches share.
struct Inner {
    writers: Arc<Pool>,
    /// Connections for batches that block their thread.
    writer_connections: WriterConnections,
    readers: Arc<Pool>,
    schema: String,
    /// Only its monotonic time is used: the wall-clock time is the database's.
    clock: Arc<dyn Clock>,
    random: Arc<dyn RandomSource>,
    runtime: Handle,
    settings: RwLock<Arc<SettingsCache>>,
    time: Mutex<time::Time>,
    event_seq_stock: Mutex<EventSeqStock>,
    claim_cursors: Mutex<ClaimCursors>,
    /// Jobs that this node has leased out.
    lease_cache: Mutex<JobCache<LeasedRow>>,
    workers: Mutex<Workers>,
    /// Tenants that have their maximum of workers, and until when this node assumes that.
    full_scopes: Mutex<BTreeMap<Scope, Timestamp>>,
    /// Jobs that cannot be read. Claims skip them.
    damaged: Mutex<BTreeSet<i64>>,
    role: Mutex<NodeRole>,
    notifications: Arc<NotificationQueue>,
    limits: TenantLimits,
}

impl Postgres {
    /// Opens the store at `address`, after bringing its tables up to date.
    pub async fn open(
        address: &PostgresAddress,
        clock: Arc<dyn Clock>,
        random: Arc<dyn RandomSource>,
        options: PostgresOptions,
    ) -> Result<Self, PostgresError> {
        let connector = schema::connector(address)?;
        schema::migrate(&connector.connect().await?, &connector).await?;
        let writers = address.connections.unwrap_or(options.writers).max(1);
        let notifications =
            NotificationQueue::new((random.entropy().0 >> 64) as u64, address.schema());
        let writers = Arc::new(Pool::new(connector.clone(), writers));
        let inner = Inner {
            writer_connections: WriterConnections::new(writers.clone()),
            writers,
            readers: Arc::new(Pool::new(connector.clone(), options.readers.max(1))),
            schema: address.schema().into(),
            clock,
            random,
            runtime: connector.runtime.clone(),
            settings: RwLock::default(),
            time: Mutex::default(),
            event_seq_stock: Mutex::default(),
            claim_cursors: Mutex::default(),
            lease_cache: Mutex::default(),
            workers: Mutex::default(),
            full_scopes: Mutex::default(),
            damaged: Mutex::default(),
            role: Mutex::default(),
            notifications: notifications.clone(),
            limits: options.tenant_limits,
        };
        let started = inner.start().await;
        started.map_err(|error| PostgresError::Store {
            schema: inner.schema.clone(),
            source: error.into_store_error(),
        })?;
        let inner = Arc::new(inner);
        let listen_task = tokio::spawn(notifications.clone().run(connector));
        let inbox_task = tokio::spawn(inbox::run(inner.clone()));
        Ok(Postgres { inner, notifications, listen_task, inbox_task })
    }

    /// Makes every earlier lease void, for a database that was restored from a backup. A worker
    /// that held such a lease may have settled it after the backup, in a future that no longer
    /// exists, so its lease must not be accepted.
    pub async fn raise_epoch(&self) -> Result<(), StoreError> {
        self.run(|inner| async move {
            let db = inner.readers.acquire().await?;
            db.run(sql::EPOCH_RAISE, &[]).await
        })
        .await
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.listen_task.abort();
        self.inbox_task.abort();
    }
}

impl Inner {
    async fn start(&self) -> Result<()> {
        let mut db = self.readers.acquire().await?;
        self.reload_settings(&db).await?;
        self.start_time(&mut db).await
    }

    /// The settings in memory, which may be old.
    fn cached_settings(&self) -> Arc<SettingsCache> {
        self.settings.read().expect(NEVER_POISONED).clone()
    }

    /// The settings as they are now: read again if the version in the database has changed.
    async fn current_settings(&self, db: &PooledConnection) -> Result<Arc<SettingsCache>> {
        let settings = self.cached_settings();
        let row = db.row(sql::BATCH_SETTINGS_VERSION, &[], "store_meta has no row").await?;
        if settings.version == row.try_get::<_, i64>(0)? {
            return Ok(settings);
        }
        self.reload_settings(db).await
    }

    /// Reads the settings, and caches them.
    async fn reload_settings(&self, db: &PooledConnection) -> Result<Arc<SettingsCache>> {
        let settings = Arc::new(SettingsCache::load(db).await?);
        self.keep_settings(settings.clone());
        Ok(settings)
    }

    /// Caches these settings, unless the cached ones are newer.
    fn keep_settings(&self, settings: Arc<SettingsCache>) {
        let mut cached = self.settings.write().expect(NEVER_POISONED);
        if cached.version <= settings.version {
            *cached = settings;
        }
    }

    /// Updates the caches of this node after a commit.
    fn note_committed(
        &self,
        transaction: &transaction::Transaction,
        written_by: Option<Xid>,
        updates: workers::WorkerUpdates,
    ) {
        self.remember(transaction, written_by);
        let mut cursors = locked(&self.claim_cursors);
        transaction.scan_summaries.iter().for_each(|summary| cursors.note_scan(summary));
        cursors.note_queued(&transaction.pending);
        transaction.served_queues.iter().for_each(|queue| cursors.note_served(*queue));
        drop(cursors);
        let mut workers = locked(&self.workers);
        updates.lost.iter().for_each(|name| drop(workers.remove(name)));
        workers.extend(updates.seen.into_iter().map(|update| (update.name, update.worker)));
    }
}

const NEVER_POISONED: &str = "no code panics while it has this lock";

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect(NEVER_POISONED)
}
