//! The traits `Execute` and `Store`: batches run on connections for writers, and reads and
//! maintenance on connections for readers.

use super::{
    Inner, Postgres, audit,
    error::TransactionError,
    inbox, list, load, nodes,
    pool::{Pool, PooledConnection},
    reads, records, sql, workers,
};
use crate::{
    codec::stored::Stored,
    node::{ClusterView, NodeInfo, Notification, UnconfirmedNode},
    queue::{QueueDepth, WorkerSeen},
    record::{Record, RecordKind},
    store::{
        Execute, NumberedEvent, Overdue, Page, PoisonCounts, Query, Reply, Request, Result, Store,
        StoreError, Upcoming,
    },
    workers::list_workers,
};
use async_trait::async_trait;
use engine::{
    AuditEntry, Event, ExplainFacts, HistoryEntry, Job, JobId, JobType, JsonText, Scope, Timestamp,
};
use futures_util::future::FutureExt;
use std::{collections::BTreeMap, error::Error, sync::Arc};

impl Postgres {
    /// Runs work that may write, on the runtime of the connections.
    pub(super) async fn run<R, F>(&self, work: impl FnOnce(Arc<Inner>) -> F) -> Result<R>
    where
        R: Send + 'static,
        F: Future<Output = Result<R, TransactionError>> + Send + 'static,
    {
        self.run_or_else(work(self.inner.clone()), StoreError::OutcomeUnknown).await
    }

    async fn run_or_else<R: Send + 'static>(
        &self,
        work: impl Future<Output = Result<R, TransactionError>> + Send + 'static,
        ended: fn(Option<Box<dyn Error + Send + Sync>>) -> StoreError,
    ) -> Result<R> {
        match self.inner.runtime.spawn(work).await {
            Ok(done) => done.map_err(TransactionError::into_store_error),
            Err(error) => Err(ended(Some(Box::new(error)))),
        }
    }

    /// Runs a read on a connection of its own.
    async fn read<R, F>(
        &self,
        query: impl FnOnce(Arc<Inner>, PooledConnection) -> F + Send + 'static,
    ) -> Result<R>
    where
        R: Send + 'static,
        F: Future<Output = Result<R, TransactionError>> + Send,
    {
        let inner = self.inner.clone();
        let work = async move {
            let db = inner.readers.acquire().await?;
            query(inner, db).await
        };
        self.run_or_else(work, StoreError::Unavailable).await
    }

    /// Reads something about one job, if it is in scope.
    async fn read_job<R, F>(
        &self,
        (scope, id): (&Scope, JobId),
        query: impl Fn(PooledConnection, Arc<Stored>) -> F + Clone + Send + 'static,
    ) -> Result<Option<R>>
    where
        R: Send + 'static,
        F: Future<Output = Result<R, TransactionError>> + Send,
    {
        let query = || {
            let (scope, query) = (scope.clone(), query.clone());
            self.read(move |_, db| async move {
                match reads::visible(&db, &scope, id).await? {
                    Some(stored) => query(db, stored).await.map(Some),
                    None => Ok(None),
                }
            })
        };
        self.read_or_promote(&[id], query).await
    }

    /// Reads jobs. If one is missing, it promotes the inbox row of that job, if there is one, and
    /// reads again. It reads again without such a row as well: the row may have become a job after
    /// the first read.
    async fn read_or_promote<R, F>(&self, ids: &[JobId], query: impl Fn() -> F) -> Result<Option<R>>
    where
        F: Future<Output = Result<Option<R>>>,
    {
        if let Some(found) = query().await? {
            return Ok(Some(found));
        }
        self.promote_now(ids).await?;
        query().await
    }

    /// Promotes those of these jobs that are in the inbox.
    async fn promote_now(&self, ids: &[JobId]) -> Result<()> {
        let ids = ids.to_vec();
        self.run(|inner| async move {
            let in_inbox = inbox::ids_in_inbox(&inner.readers.acquire().await?, &ids).await?;
            if in_inbox.is_empty() { Ok(()) } else { inner.promote_now(&in_inbox).await }
        })
        .await
    }

    /// Runs a read of several statements on one snapshot.
    async fn read_snapshot<R, F>(
        &self,
        query: impl FnOnce(Arc<Inner>, Arc<PooledConnection>, Timestamp) -> F + Send + 'static,
    ) -> Result<R>
    where
        R: Send + 'static,
        F: Future<Output = Result<R, TransactionError>> + Send,
    {
        self.read(move |inner, mut db| async move {
            let now = inner.now(&mut db).await?;
            db.mark_open();
            let db = Arc::new(db);
            let ((), answer) =
                tokio::try_join!(biased; db.begin_read(), query(inner, db.clone(), now))?;
            let mut db = Arc::into_inner(db)
                .ok_or(TransactionError::Inconsistent("a read kept its connection"))?;
            // The rollback is sent before any later statement, and its answer does not matter.
            if db.script(sql::ROLLBACK).now_or_never().is_none_or(|ended| ended.is_ok()) {
                db.mark_closed();
            }
            Ok(answer)
        })
        .await
    }
}

impl Execute for Postgres {
    /// Blocks the calling thread, so it must not run on a thread that runs tokio tasks.
    fn execute(&self, batch: Vec<Request>, notification: Notification) -> Result<Vec<Reply>> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        let inner = &self.inner;
        // Boxed: the future is large, and a runtime moves it more than once.
        let work = async |writers: &Arc<Pool>| {
            Box::pin(inner.execute(writers, &batch, &notification)).await
        };
        inner.writer_connections.run(work).map_err(TransactionError::into_store_error)
    }

    fn notify_peers(&self, notification: Notification) {
        self.notifications.outgoing.put(notification);
    }
}

#[async_trait]
impl Store for Postgres {
    async fn job(&self, scope: &Scope, id: JobId) -> Result<Option<Job>> {
        self.read_job((scope, id), |_, stored| async move { Ok(stored.job.clone()) }).await
    }

    async fn payload(&self, scope: &Scope, id: JobId) -> Result<Option<JsonText>> {
        // A payload changes only with a redrive, and is deleted only with its job.
        let payload =
            |db, stored: Arc<Stored>| async move { load::payload_if_there(&db, stored.no).await };
        Ok(self.read_job((scope, id), payload).await?.flatten())
    }

    async fn history(&self, scope: &Scope, id: JobId, after: u64) -> Result<Vec<HistoryEntry>> {
        let short =
            move |_, stored: Arc<Stored>| async move { load::short_history(&stored, after) };
        // Most histories are in the row of their job. Both parts of a long one must be from one
        // snapshot.
        match self.read_job((scope, id), short).await? {
            Some(Some(rows)) => return Ok(rows),
            Some(None) => {}
            None => return Ok(Vec::new()),
        }
        let scope = scope.clone();
        self.read_snapshot(move |_, db, _| async move {
            match reads::visible(&db, &scope, id).await? {
                Some(stored) => load::history(&db, &stored, after).await,
                None => Ok(Vec::new()),
            }
        })
        .await
    }

    async fn events_of_job(&self, scope: &Scope, id: JobId, after: u64) -> Result<Vec<Event>> {
        let query = || {
            let scope = scope.clone();
            self.read_snapshot(move |_, db, _| async move {
                match reads::visible(&db, &scope, id).await? {
                    Some(stored) => reads::events_of_job(&db, &stored, after).await.map(Some),
                    None => Ok(None),
                }
            })
        };
        Ok(self.read_or_promote(&[id], query).await?.unwrap_or_default())
    }

    async fn list(&self, query: &Query) -> Result<Page> {
        let query = query.clone();
        self.read_snapshot(move |_, db, _| async move { list::list(&db, &query).await }).await
    }

    async fn queues(&self, scope: &Scope) -> Result<Vec<QueueDepth>> {
        let scope = scope.clone();
        self.read_snapshot(
            move |inner, db, now| async move { inner.queues(&db, &scope, now).await },
        )
        .await
    }

    async fn poison_counts(
        &self,
        scope: &Scope,
        job_type: Option<&JobType>,
    ) -> Result<PoisonCounts> {
        let (scope, job_type) = (scope.clone(), job_type.cloned());
        self.read_snapshot(move |inner, db, _| async move {
            inner.poison_counts(&db, &scope, job_type.as_ref()).await
        })
        .await
    }

    async fn workers(&self, scope: &Scope) -> Result<Vec<WorkerSeen>> {
        let scope = scope.clone();
        self.read_snapshot(move |inner, db, now| async move {
            let (all, leases) =
                (inner.workers_now(&db, &scope).await?, workers::leases(&db).await?);
            Ok(list_workers(&all, &leases, &scope, now))
        })
        .await
    }

    async fn records(
        &self,
        kind: RecordKind,
        scope: Option<&Scope>,
        prefix: &str,
    ) -> Result<Vec<Record>> {
        let (scope, prefix) = (scope.cloned(), prefix.to_owned());
        self.read(move |_, db| async move {
            Ok(records::load(&db, &[kind]).await?.list(kind, scope.as_ref(), &prefix))
        })
        .await
    }

    async fn audit(
        &self,
        scope: &Scope,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<AuditEntry>> {
        let scope = scope.clone();
        self.read(move |_, db| async move { audit::page(&db, &scope, before, limit).await }).await
    }

    async fn explain_facts(&self, scope: &Scope, id: JobId) -> Result<Option<(Job, ExplainFacts)>> {
        let query = || {
            let scope = scope.clone();
            self.read_snapshot(move |inner, db, now| async move {
                inner.explain_facts(&db, (&scope, id), now).await
            })
        };
        self.read_or_promote(&[id], query).await
    }

    async fn overdue(&self, limit: usize) -> Result<Vec<Overdue>> {
        self.read_snapshot(
            move |inner, db, now| async move { inner.overdue(&db, limit, now).await },
        )
        .await
    }

    async fn next_due(&self, after: Timestamp) -> Result<Upcoming> {
        self.read_snapshot(move |inner, db, now| async move {
            Ok(Upcoming { now, due_at: inner.next_due(&db, after).await? })
        })
        .await
    }

    async fn number_events(&self, limit: usize) -> Result<usize> {
        self.run(|inner| async move { inner.number_events(limit).await }).await
    }

    async fn events(&self, after: u64, limit: usize) -> Result<Vec<NumberedEvent>> {
        self.read_snapshot(move |_, db, _| async move { reads::events(&db, after, limit).await })
            .await
    }

    async fn prune_leftovers(&self, limit: usize) -> Result<usize> {
        self.run(|inner| async move {
            inner.roll_up().await?;
            inner.prune_leftovers(limit).await
        })
        .await
    }

    fn writers(&self) -> usize {
        self.inner.writers.size
    }

    fn is_shared(&self) -> bool {
        true
    }

    async fn heartbeat_node(&self, node: &NodeInfo) -> Result<ClusterView> {
        let node = node.clone();
        self.run(|inner| async move { inner.heartbeat_node(&node).await }).await
    }

    async fn settings_version(&self) -> Result<u64> {
        self.read(move |_, db| async move { nodes::settings_version(&db).await }).await
    }

    async fn confirm_settings(&self, node: &NodeInfo, version: u64) -> Result<()> {
        let node = node.clone();
        self.run(|inner| async move { inner.confirm_settings(&node, version).await }).await
    }

    async fn unconfirmed_nodes(&self, version: u64) -> Result<Vec<UnconfirmedNode>> {
        self.read(
            move |inner, mut db| async move { inner.unconfirmed_nodes(&mut db, version).await },
        )
        .await
    }

    async fn versions(&self, ids: &[JobId]) -> Result<BTreeMap<JobId, u64>> {
        let query = || {
            let ids = ids.to_vec();
            self.read(move |_, db| async move {
                let found = load::read(&db, &ids).await?;
                Ok(found.into_iter().map(|(id, stored)| (id, stored.job.version)).collect())
            })
        };
        let found: BTreeMap<JobId, u64> = query().await?;
        if ids.iter().all(|id| found.contains_key(id)) {
            return Ok(found);
        }
        self.promote_now(ids).await?;
        query().await
    }

    async fn notification(&self) -> Notification {
        self.notifications.incoming.take().await
    }
}
