//! The store for many machines: one schema of a PostgreSQL database, any number of equal nodes.
//!
//! A batch is one transaction ([`execute`]): locks in one order, everything loaded, the clock read, the engine asked,
//! everything written and committed in few journeys. Several run side by side. What a commit came to when nobody
//! answered is asked for on another connection ([`commit`]). Every row that matters is sealed, as in the embedded
//! store.

mod address;
mod audit;
mod chores;
mod claim;
mod commit;
mod connect;
mod desk;
mod doctor;
mod erase;
mod error;
mod execute;
mod inbox;
mod known;
mod lines;
mod list;
mod load;
mod news;
mod nodes;
mod pending;
mod plan;
#[cfg(test)]
mod plans;
mod pool;
mod reads;
mod recall;
mod save;
mod schema;
mod session;
mod sql;
#[cfg(test)]
pub(crate) mod tests;
mod time;
mod tls;
mod turn;
mod uuid;
mod verify;
mod workers;

pub use address::PostgresAddress;
pub use doctor::{LongTransaction, PostgresHealth, examine_postgres};
pub use error::PostgresError;
pub(crate) use schema::clock_connection;
pub use schema::{migrate_postgres, postgres_schema};
pub use turn::Turn;
pub use verify::verify_postgres_audit;

use crate::{
    clock::Clock,
    dice::Dice,
    node::{Attendance, News, NodeCard},
    queue::{QueueDepth, WorkerSeen},
    remembered::Remembered,
    seen::{Workers, described},
    store::{NumberedEvent, Overdue, Page, Query, Reply, Request, Store, StoreError, Upcoming},
};
use async_trait::async_trait;
use engine::{
    ApiKey, AuditEntry, Event, HistoryEntry, Job, JobId, JobType, JsonText, Policy, Scope,
    SigningKey, Surroundings, Timestamp,
};
use error::Trouble;
use futures_util::future::FutureExt;
use known::Known;
use lines::{Lines, Looked};
use news::Post;
use pool::{Lent, Pool};
use recall::Written;
use std::{
    collections::{BTreeMap, BTreeSet},
    future::poll_fn,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, RwLock},
};
use tokio::{runtime::Handle, task::JoinHandle};
use uuid::Xid;

/// A store in a database that many nodes share. It is opened, and does its work, on the tokio runtime that opened it;
/// whoever asks it may be anywhere.
pub struct Postgres {
    inner: Arc<Inner>,
    post: Arc<Post>,
    listening: JoinHandle<()>,
    taking_in: JoinHandle<()>,
}

/// How many connections a store has.
#[derive(Clone, Debug)]
pub struct PostgresOptions {
    /// Batches that are carried out side by side; what the address says goes before it.
    pub writers: usize,
    /// Questions that are answered side by side.
    pub readers: usize,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        PostgresOptions { writers: 4, readers: 4 }
    }
}

/// What every question and every batch shares.
struct Inner {
    writers: Arc<Pool>,
    readers: Arc<Pool>,
    schema: String,
    /// Only its monotonic hand is looked at: the time is the database's.
    clock: Arc<dyn Clock>,
    dice: Arc<dyn Dice>,
    runtime: Handle,
    known: RwLock<Arc<Known>>,
    time: time::Time,
    lines: Mutex<Lines>,
    /// Jobs that this node has leased out.
    remembered: Mutex<Remembered<Written>>,
    workers: Mutex<Workers>,
    /// Jobs that cannot be read. Claims pass them by.
    damaged: Mutex<BTreeSet<i64>>,
    part: Mutex<nodes::Part>,
    post: Arc<Post>,
}

impl Postgres {
    /// Opens the store at `address`, and brings its tables up to date first.
    pub async fn open(
        address: &PostgresAddress,
        clock: Arc<dyn Clock>,
        dice: Arc<dyn Dice>,
        options: PostgresOptions,
    ) -> Result<Self, PostgresError> {
        let way = schema::way(address)?;
        schema::migrate(&way.connect().await?, &way).await?;
        let writers = address.connections().unwrap_or(options.writers).max(1);
        let post = Post::new((dice.roll().0 >> 64) as u64);
        let inner = Inner {
            writers: Arc::new(Pool::new(way.clone(), writers)),
            readers: Arc::new(Pool::new(way.clone(), options.readers.max(1))),
            schema: address.schema().into(),
            clock,
            dice,
            runtime: way.runtime.clone(),
            known: RwLock::default(),
            time: time::Time::default(),
            lines: Mutex::default(),
            remembered: Mutex::default(),
            workers: Mutex::default(),
            damaged: Mutex::default(),
            part: Mutex::default(),
            post: post.clone(),
        };
        let started = inner.start().await;
        started.map_err(|trouble| PostgresError::Store {
            schema: inner.schema.clone(),
            source: trouble.told(),
        })?;
        let listening = post.run(way);
        let inner = Arc::new(inner);
        let taking_in = inbox::run(inner.clone());
        Ok(Postgres { inner, post, listening, taking_in })
    }

    /// Makes every lease from before void: for a database that was restored from a backup. Whoever held a lease then may
    /// have settled it since, in a future that no longer exists, and must not be believed.
    pub async fn raise_epoch(&self) -> Result<(), StoreError> {
        let inner = self.inner.clone();
        self.ask(async move {
            let db = inner.writers.lend().await?;
            db.run(sql::EPOCH_RAISE, &[]).await.map(drop)
        })
        .await
    }

    /// Has something done on the runtime of the connections.
    async fn ask<R: Send + 'static>(
        &self,
        work: impl Future<Output = Result<R, Trouble>> + Send + 'static,
    ) -> Result<R, StoreError> {
        match self.inner.runtime.spawn(work).await {
            Ok(done) => done.map_err(Trouble::told),
            Err(ended) => Err(StoreError::OutcomeUnknown(Some(Box::new(ended)))),
        }
    }

    /// The same on the thread of whoever asks, which saves two ways between threads. If they lose interest, the
    /// connection ends, and what was not committed with it.
    async fn do_here<R>(
        &self,
        work: impl Future<Output = Result<R, Trouble>> + Send,
    ) -> Result<R, StoreError> {
        let mut work = pin!(work);
        let within = poll_fn(|context| {
            let _timers = self.inner.runtime.enter();
            work.as_mut().poll(context)
        });
        within.await.map_err(Trouble::told)
    }

    /// Answers a question on a connection of its own.
    async fn read<R, F>(
        &self,
        question: impl FnOnce(Arc<Inner>, Lent) -> F + Send + 'static,
    ) -> Result<R, StoreError>
    where
        R: Send + 'static,
        F: Future<Output = Result<R, Trouble>> + Send,
    {
        let inner = self.inner.clone();
        let asked = self.inner.runtime.spawn(async move {
            let db = inner.readers.lend().await?;
            question(inner, db).await
        });
        match asked.await {
            Ok(done) => done.map_err(Trouble::told),
            Err(ended) => Err(StoreError::Unavailable(Some(Box::new(ended)))),
        }
    }

    /// Asks for jobs, and once more where one was not found that may be in the inbox, or was when it was asked for.
    async fn seek<R, F>(&self, ids: &[JobId], ask: impl Fn() -> F) -> Result<Option<R>, StoreError>
    where
        F: Future<Output = Result<Option<R>, StoreError>>,
    {
        if let Some(found) = ask().await? {
            return Ok(Some(found));
        }
        self.let_in(ids).await?;
        ask().await
    }

    /// Makes jobs of those of these that are in the inbox.
    async fn let_in(&self, ids: &[JobId]) -> Result<(), StoreError> {
        let (inner, wanted) = (self.inner.clone(), ids.to_vec());
        self.ask(async move {
            let waiting = inbox::waiting(&inner.readers.lend().await?, &wanted).await?;
            if waiting.is_empty() { Ok(()) } else { inner.let_in(&waiting).await }
        })
        .await
    }

    /// Answers a question of several statements, all from one moment.
    async fn read_moment<R, F>(
        &self,
        question: impl FnOnce(Arc<Inner>, Arc<Lent>, Timestamp) -> F + Send + 'static,
    ) -> Result<R, StoreError>
    where
        R: Send + 'static,
        F: Future<Output = Result<R, Trouble>> + Send,
    {
        self.read(move |inner, mut db| async move {
            let now = inner.now(&mut db).await?;
            db.opened();
            let db = Arc::new(db);
            let ((), answer) =
                tokio::try_join!(biased; db.begin_read(), question(inner, db.clone(), now))?;
            let mut db = Arc::into_inner(db).ok_or(Trouble::Impossible("somebody kept it"))?;
            // It is on its way before anything that follows, and says nothing that anybody waits for.
            if db.script(sql::ROLLBACK).now_or_never().is_none_or(|ended| ended.is_ok()) {
                db.closed();
            }
            Ok(answer)
        })
        .await
    }

    /// Does a chore in a transaction of its own.
    async fn chore<R, F>(
        &self,
        chore: impl FnOnce(Arc<Inner>, Arc<Lent>) -> F + Send + 'static,
    ) -> Result<R, StoreError>
    where
        R: Send + 'static,
        F: Future<Output = Result<R, Trouble>> + Send,
    {
        let inner = self.inner.clone();
        self.ask(async move {
            let mut db = inner.readers.lend().await?;
            db.opened();
            let db = Arc::new(db);
            let done = chore(inner, db.clone()).await;
            let mut db = Arc::into_inner(db).ok_or(Trouble::Impossible("somebody kept it"))?;
            let end = if done.is_ok() { sql::COMMIT } else { sql::ROLLBACK };
            let ended = db.script(end).await;
            if ended.is_ok() {
                db.closed();
            }
            let done = done?;
            ended?;
            Ok(done)
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
    async fn start(&self) -> Result<(), Trouble> {
        let mut db = self.writers.lend().await?;
        let known = Known::load(&db).await?;
        known::tell_policies(&db, &known).await?;
        self.learn(Arc::new(known));
        self.start_time(&mut db).await
    }

    fn schema(&self) -> &str {
        &self.schema
    }

    /// What this node knows by heart.
    fn known(&self) -> Arc<Known> {
        self.known.read().expect(UNPOISONED).clone()
    }

    /// What is known, read again if the house says that it has changed.
    async fn known_now(&self, db: &Lent) -> Result<Arc<Known>, Trouble> {
        let known = self.known();
        let rows = db.rows(sql::SETTINGS_NOW, &[]).await?;
        let row = rows.first().ok_or(Trouble::Impossible("the house has no row"))?;
        if known.version == row.try_get::<_, i64>(0)? {
            return Ok(known);
        }
        let known = Arc::new(Known::load(db).await?);
        self.learn(known.clone());
        Ok(known)
    }

    /// What was read later goes before what was read earlier.
    fn learn(&self, known: Arc<Known>) {
        let mut kept = self.known.write().expect(UNPOISONED);
        if kept.version <= known.version {
            *kept = known;
        }
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().expect(UNPOISONED)
    }

    fn remembered(&self) -> MutexGuard<'_, Remembered<Written>> {
        self.remembered.lock().expect(UNPOISONED)
    }

    fn damaged(&self) -> MutexGuard<'_, BTreeSet<i64>> {
        self.damaged.lock().expect(UNPOISONED)
    }

    /// Takes over what is true since a transaction was committed.
    fn committed(
        &self,
        desk: &desk::Desk,
        by: Option<Xid>,
        seen: Vec<workers::News>,
        looked: Vec<Looked>,
    ) {
        self.remember(desk, by);
        let mut lines = self.lines();
        looked.iter().for_each(|looked| lines.looked(looked));
        lines.note(&desk.pending);
        drop(lines);
        self.workers().extend(seen.into_iter().map(|(name, seen, _)| (name, seen)));
    }
}

const UNPOISONED: &str = "no code of ours panics with this in hand";

#[async_trait]
impl Store for Postgres {
    async fn execute(&self, batch: Vec<Request>) -> Result<Vec<Reply>, StoreError> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        self.do_here(self.inner.execute(&batch)).await
    }

    async fn job(&self, scope: &Scope, id: JobId) -> Result<Option<Job>, StoreError> {
        let ask = || {
            let scope = scope.clone();
            self.read(move |_, db| async move {
                Ok(reads::visible(&db, &scope, id).await?.map(|stored| stored.job.clone()))
            })
        };
        self.seek(&[id], ask).await
    }

    async fn payload(&self, scope: &Scope, id: JobId) -> Result<Option<JsonText>, StoreError> {
        let ask = || {
            let scope = scope.clone();
            self.read(move |_, db| async move {
                match reads::visible(&db, &scope, id).await? {
                    // Never changed; gone only with its job.
                    Some(stored) => load::payload_if_there(&db, stored.no).await,
                    None => Ok(None),
                }
            })
        };
        self.seek(&[id], ask).await
    }

    async fn history(
        &self,
        scope: &Scope,
        id: JobId,
        after: u64,
    ) -> Result<Vec<HistoryEntry>, StoreError> {
        let short = || {
            let scope = scope.clone();
            self.read(move |_, db| async move {
                let stored = reads::visible(&db, &scope, id).await?;
                stored.map(|stored| load::short_history(&stored, after)).transpose()
            })
        };
        let long = || {
            let scope = scope.clone();
            self.read_moment(move |_, db, _| async move {
                match reads::visible(&db, &scope, id).await? {
                    Some(stored) => load::history(&db, &stored, after).await.map(Some),
                    None => Ok(None),
                }
            })
        };
        // Most histories are in the row of their job. Of a long one, both parts must be of one moment.
        let found = self.seek(&[id], short).await?;
        match found {
            Some(Some(rows)) => Ok(rows),
            Some(None) => Ok(long().await?.unwrap_or_default()),
            None => Ok(Vec::new()),
        }
    }

    async fn announced(
        &self,
        scope: &Scope,
        id: JobId,
        after: u64,
    ) -> Result<Vec<Event>, StoreError> {
        let ask = || {
            let scope = scope.clone();
            self.read_moment(move |_, db, _| async move {
                match reads::visible(&db, &scope, id).await? {
                    Some(stored) => reads::announced(&db, &stored, after).await.map(Some),
                    None => Ok(None),
                }
            })
        };
        Ok(self.seek(&[id], ask).await?.unwrap_or_default())
    }

    async fn list(&self, query: &Query) -> Result<Page, StoreError> {
        let query = query.clone();
        self.read_moment(move |_, db, _| async move { list::list(&db, &query).await }).await
    }

    async fn queues(&self, scope: &Scope) -> Result<Vec<QueueDepth>, StoreError> {
        let scope = scope.clone();
        self.read_moment(move |inner, db, now| async move { inner.queues(&db, &scope, now).await })
            .await
    }

    async fn workers(&self, scope: &Scope) -> Result<Vec<WorkerSeen>, StoreError> {
        let scope = scope.clone();
        self.read_moment(move |inner, db, now| async move {
            let (all, leases) = (inner.workers_now(&db).await?, workers::leases(&db).await?);
            Ok(described(&all, &leases, &scope, now))
        })
        .await
    }

    async fn policies(&self) -> Result<BTreeMap<JobType, Policy>, StoreError> {
        self.read(move |_, db| async move { known::load_policies(&db).await }).await
    }

    async fn keys(&self) -> Result<Vec<ApiKey>, StoreError> {
        self.read(move |_, db| async move { audit::keys(&db).await }).await
    }

    async fn signing_keys(&self) -> Result<Vec<SigningKey>, StoreError> {
        self.read(move |_, db| async move { audit::signing_keys(&db).await }).await
    }

    async fn audit(
        &self,
        scope: &Scope,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        let scope = scope.clone();
        self.read(move |_, db| async move { audit::page(&db, &scope, before, limit).await }).await
    }

    async fn surroundings(
        &self,
        scope: &Scope,
        id: JobId,
    ) -> Result<Option<(Job, Surroundings)>, StoreError> {
        let ask = || {
            let scope = scope.clone();
            self.read_moment(move |inner, db, now| async move {
                inner.surroundings(&db, (&scope, id), now).await
            })
        };
        self.seek(&[id], ask).await
    }

    async fn overdue(&self, limit: usize) -> Result<Vec<Overdue>, StoreError> {
        self.read_moment(move |inner, db, now| async move { inner.overdue(&db, limit, now).await })
            .await
    }

    async fn next_due(&self, after: Timestamp) -> Result<Upcoming, StoreError> {
        self.read_moment(move |inner, db, now| async move {
            Ok(Upcoming { now, due_at: inner.next_due(&db, after).await? })
        })
        .await
    }

    async fn number_events(&self, limit: usize) -> Result<usize, StoreError> {
        self.chore(move |inner, db| async move { inner.number_events(&db, limit).await }).await
    }

    async fn events(&self, after: u64, limit: usize) -> Result<Vec<NumberedEvent>, StoreError> {
        self.read_moment(move |_, db, _| async move { reads::events(&db, after, limit).await })
            .await
    }

    async fn tidy(&self, limit: usize) -> Result<usize, StoreError> {
        self.chore(move |inner, db| async move { inner.roll_up(&db).await }).await?;
        self.chore(move |inner, db| async move { inner.tidy(&db, limit).await }).await
    }

    fn writers(&self) -> usize {
        self.inner.writers.size()
    }

    fn is_shared(&self) -> bool {
        true
    }

    async fn attend(&self, node: &NodeCard) -> Result<Attendance, StoreError> {
        let (inner, node) = (self.inner.clone(), node.clone());
        self.ask(async move {
            let mut db = inner.readers.lend().await?;
            inner.attend(&mut db, &node).await
        })
        .await
    }

    async fn versions(&self, ids: &[JobId]) -> Result<BTreeMap<JobId, u64>, StoreError> {
        let ask = || {
            let ids = ids.to_vec();
            self.read(move |_, db| async move {
                let found = load::read(&db, &ids).await?;
                Ok(found.into_iter().map(|(id, stored)| (id, stored.job.version)).collect())
            })
        };
        let found: BTreeMap<JobId, u64> = ask().await?;
        if ids.iter().all(|id| found.contains_key(id)) {
            return Ok(found);
        }
        self.let_in(ids).await?;
        ask().await
    }

    fn tell(&self, news: News) {
        self.post.tell(news);
    }

    async fn news(&self) -> News {
        self.post.heard().await
    }
}
