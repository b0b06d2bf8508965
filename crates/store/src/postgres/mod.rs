//! The store for many machines: one schema of a PostgreSQL database, any number of equal nodes.
//!
//! A batch is one transaction ([`execute`]): locks in one order, everything loaded, the clock read, the engine asked,
//! everything written and committed in few journeys; one, where there are only new jobs ([`fast_submit`]). Several run side by
//! side. What a commit came to when nobody answered is asked for on another connection ([`commit`]). Every row that matters is
//! sealed, as in the embedded store.

mod address;
mod audit;
mod batch_plan;
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
mod loading;
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
    clock::Clock, job_cache::JobCache, node::NodeRole, random::RandomSource, seen::Workers,
    store::StoreError,
};
use claim_cursors::ClaimCursors;
use engine::{Scope, TenantLimits, Timestamp};
use error::TransactionError;
use fast_submit::Places;
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

/// A store in a database that many nodes share. It does its work on the tokio runtime that opened
/// it, and on threads that have nothing else to do ([`Execute::execute`](crate::Execute::execute));
/// reads may be asked for from anywhere.
pub struct Postgres {
    inner: Arc<Inner>,
    post: Arc<NotificationQueue>,
    listening: JoinHandle<()>,
    taking_in: JoinHandle<()>,
}

/// How a store is opened: how many connections it has, and what a tenant may have.
#[derive(Clone, Debug)]
pub struct PostgresOptions {
    /// Batches that are carried out side by side; what the address says goes before it.
    pub writers: usize,
    /// Questions that are answered side by side.
    pub readers: usize,
    /// What one tenant may have beside its jobs.
    pub tenant_limits: TenantLimits,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        PostgresOptions { writers: 4, readers: 4, tenant_limits: TenantLimits::default() }
    }
}

/// What every question and every batch shares.
struct Inner {
    writers: Arc<Pool>,
    /// The same for threads that have nothing else to do.
    writer_connections: WriterConnections,
    readers: Arc<Pool>,
    schema: String,
    /// Only its monotonic hand is looked at: the time is the database's.
    clock: Arc<dyn Clock>,
    random: Arc<dyn RandomSource>,
    runtime: Handle,
    known: RwLock<Arc<SettingsCache>>,
    time: Mutex<time::Time>,
    places: Mutex<Places>,
    lines: Mutex<ClaimCursors>,
    /// Jobs that this node has leased out.
    job_cache: Mutex<JobCache<LeasedRow>>,
    workers: Mutex<Workers>,
    /// Until when a tenant is taken to have no room for another worker.
    full_scopes: Mutex<BTreeMap<Scope, Timestamp>>,
    /// Jobs that cannot be read. Claims pass them by.
    damaged: Mutex<BTreeSet<i64>>,
    role: Mutex<NodeRole>,
    post: Arc<NotificationQueue>,
    limits: TenantLimits,
}

impl Postgres {
    /// Opens the store at `address`, and brings its tables up to date first.
    pub async fn open(
        address: &PostgresAddress,
        clock: Arc<dyn Clock>,
        random: Arc<dyn RandomSource>,
        options: PostgresOptions,
    ) -> Result<Self, PostgresError> {
        let way = schema::way(address)?;
        schema::migrate(&way.connect().await?, &way).await?;
        let writers = address.connections.unwrap_or(options.writers).max(1);
        let post = NotificationQueue::new((random.entropy().0 >> 64) as u64, address.schema());
        let writers = Arc::new(Pool::new(way.clone(), writers));
        let inner = Inner {
            writer_connections: WriterConnections::beside(writers.clone()),
            writers,
            readers: Arc::new(Pool::new(way.clone(), options.readers.max(1))),
            schema: address.schema().into(),
            clock,
            random,
            runtime: way.runtime.clone(),
            known: RwLock::default(),
            time: Mutex::default(),
            places: Mutex::default(),
            lines: Mutex::default(),
            job_cache: Mutex::default(),
            workers: Mutex::default(),
            full_scopes: Mutex::default(),
            damaged: Mutex::default(),
            role: Mutex::default(),
            post: post.clone(),
            limits: options.tenant_limits,
        };
        let started = inner.start().await;
        started.map_err(|trouble| PostgresError::Store {
            schema: inner.schema.clone(),
            source: trouble.told(),
        })?;
        let inner = Arc::new(inner);
        let listening = tokio::spawn(post.clone().run(way));
        let taking_in = tokio::spawn(inbox::run(inner.clone()));
        Ok(Postgres { inner, post, listening, taking_in })
    }

    /// Makes every lease from before void: for a database that was restored from a backup. Whoever held a lease then may
    /// have settled it since, in a future that no longer exists, and must not be believed.
    pub async fn raise_epoch(&self) -> Result<(), StoreError> {
        let inner = self.inner.clone();
        self.ask(async move {
            let db = inner.readers.lend().await?;
            db.run(sql::EPOCH_RAISE, &[]).await.map(drop)
        })
        .await
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.listening.abort();
        self.taking_in.abort();
    }
}

impl Inner {
    async fn start(&self) -> Result<(), TransactionError> {
        let mut db = self.readers.lend().await?;
        let known = SettingsCache::load(&db).await?;
        self.learn(Arc::new(known));
        self.start_time(&mut db).await
    }

    /// What this node knows by heart.
    fn known(&self) -> Arc<SettingsCache> {
        self.known.read().expect(UNPOISONED).clone()
    }

    /// What is known, read again if the house says that it has changed.
    async fn known_now(
        &self,
        db: &PooledConnection,
    ) -> Result<Arc<SettingsCache>, TransactionError> {
        let known = self.known();
        let row = db.row(sql::SETTINGS_NOW, &[], "the house has no row").await?;
        if known.version == row.try_get::<_, i64>(0)? {
            return Ok(known);
        }
        let known = Arc::new(SettingsCache::load(db).await?);
        self.learn(known.clone());
        Ok(known)
    }

    /// What was read later goes before what was read earlier.
    fn learn(&self, known: Arc<SettingsCache>) {
        let mut kept = self.known.write().expect(UNPOISONED);
        if kept.version <= known.version {
            *kept = known;
        }
    }

    /// Takes over what is true since a transaction was committed.
    fn committed(
        &self,
        transaction: &transaction::Transaction,
        by: Option<Xid>,
        notification: workers::WorkersNotification,
    ) {
        self.remember(transaction, by);
        let mut lines = locked(&self.lines);
        transaction.looked.iter().for_each(|looked| lines.looked(looked));
        lines.note(&transaction.pending);
        transaction.served.iter().for_each(|queue| lines.serve(*queue));
        drop(lines);
        let mut workers = locked(&self.workers);
        notification.lost.iter().for_each(|name| drop(workers.remove(name)));
        workers.extend(notification.seen.into_iter().map(|(name, seen, _)| (name, seen)));
    }
}

const UNPOISONED: &str = "no code of ours panics with this in hand";

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect(UNPOISONED)
}
