//! A store whose inside can be taken out and another put in, and which fails where a test says so: how a
//! process that dies and comes back, and a disk that fails in part, look to those who go on asking.

use crate::{
    Attendance, News, NodeCard, NumberedEvent, Overdue, Page, PoisonCounts, Query, QueueDepth,
    Reply, Request, Store, StoreError, UnconfirmedNode, Upcoming, WorkerSeen,
};
use async_trait::async_trait;
use engine::{
    ApiKey, AuditEntry, Event, HistoryEntry, Job, JobId, JobType, JsonText, Policy, Scope,
    SigningKey, Surroundings, Timestamp,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, RwLock,
        atomic::{AtomicBool, Ordering},
    },
};

/// A store that can be replaced while others hold on to it.
pub struct Replaceable {
    store: RwLock<Option<Arc<dyn Store>>>,
    judge: RwLock<Option<Arc<Judge>>>,
    unreachable: AtomicBool,
    deaf: AtomicBool,
}

/// What becomes of a batch: nothing where it is carried out as usual; else the error that is told, and whether
/// it is carried out all the same.
type Judge = dyn Fn(&[Request]) -> Option<(bool, StoreError)> + Send + Sync;

impl Replaceable {
    /// Begins with `store`.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Replaceable {
            store: RwLock::new(Some(store)),
            judge: RwLock::default(),
            unreachable: AtomicBool::new(false),
            deaf: AtomicBool::new(false),
        }
    }

    /// Whether it cannot be reached from now on: nothing is done, and nothing is answered but that.
    pub fn be_unreachable(&self, unreachable: bool) {
        self.unreachable.store(unreachable, Ordering::SeqCst);
    }

    /// Loses all news, in both directions, from now on.
    pub fn be_deaf(&self) {
        self.deaf.store(true, Ordering::SeqCst);
    }

    /// Lets `judge` say which batches fail from now on.
    pub fn judge(
        &self,
        judge: impl Fn(&[Request]) -> Option<(bool, StoreError)> + Send + Sync + 'static,
    ) {
        *self.judge.write().expect("nothing panics with the judge in hand") = Some(Arc::new(judge));
    }

    /// Lets go of the store, and only then makes the next one: both may want the same file.
    pub fn replace(&self, next: impl FnOnce() -> Arc<dyn Store>) {
        let mut store = self.store.write().expect("nothing panics with the store in hand");
        drop(store.take());
        *store = Some(next());
    }

    /// The store that is inside now.
    pub fn inside(&self) -> Arc<dyn Store> {
        let store = self.store.read().expect("nothing panics with the store in hand");
        store.clone().expect("it is only empty while it is replaced")
    }

    fn reached(&self) -> Result<Arc<dyn Store>, StoreError> {
        if self.unreachable.load(Ordering::SeqCst) {
            return Err(StoreError::Unavailable(Some("it was cut off".into())));
        }
        Ok(self.inside())
    }

    fn judged(&self, batch: &[Request]) -> Option<(bool, StoreError)> {
        let judge = self.judge.read().expect("nothing panics with the judge in hand").clone();
        judge.and_then(|judge| judge(batch))
    }

    fn is_deaf(&self) -> bool {
        self.deaf.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Store for Replaceable {
    async fn execute(&self, batch: Vec<Request>) -> Result<Vec<Reply>, StoreError> {
        let Some((done, error)) = self.judged(&batch) else {
            return self.reached()?.execute(batch).await;
        };
        if done {
            self.reached()?.execute(batch).await?;
        }
        Err(error)
    }

    fn execute_here(&self, batch: Vec<Request>, news: News) -> Result<Vec<Reply>, StoreError> {
        let news = if self.is_deaf() { News::default() } else { news };
        let Some((done, error)) = self.judged(&batch) else {
            return self.reached()?.execute_here(batch, news);
        };
        if done {
            self.reached()?.execute_here(batch, news)?;
        }
        Err(error)
    }

    async fn job(&self, scope: &Scope, id: JobId) -> Result<Option<Job>, StoreError> {
        self.reached()?.job(scope, id).await
    }

    async fn payload(&self, scope: &Scope, id: JobId) -> Result<Option<JsonText>, StoreError> {
        self.reached()?.payload(scope, id).await
    }

    async fn history(
        &self,
        scope: &Scope,
        id: JobId,
        after: u64,
    ) -> Result<Vec<HistoryEntry>, StoreError> {
        self.reached()?.history(scope, id, after).await
    }

    async fn announced(
        &self,
        scope: &Scope,
        id: JobId,
        after: u64,
    ) -> Result<Vec<Event>, StoreError> {
        self.reached()?.announced(scope, id, after).await
    }

    async fn list(&self, query: &Query) -> Result<Page, StoreError> {
        self.reached()?.list(query).await
    }

    async fn queues(&self, scope: &Scope) -> Result<Vec<QueueDepth>, StoreError> {
        self.reached()?.queues(scope).await
    }

    async fn poison_counts(
        &self,
        scope: &Scope,
        job_type: Option<&JobType>,
    ) -> Result<PoisonCounts, StoreError> {
        self.reached()?.poison_counts(scope, job_type).await
    }

    async fn workers(&self, scope: &Scope) -> Result<Vec<WorkerSeen>, StoreError> {
        self.reached()?.workers(scope).await
    }

    async fn policies(&self) -> Result<BTreeMap<JobType, Policy>, StoreError> {
        self.reached()?.policies().await
    }

    async fn pauses(&self) -> Result<BTreeSet<(JobType, Scope)>, StoreError> {
        self.reached()?.pauses().await
    }

    async fn keys(&self) -> Result<Vec<ApiKey>, StoreError> {
        self.reached()?.keys().await
    }

    async fn keys_of(&self, scope: &Scope) -> Result<Vec<ApiKey>, StoreError> {
        self.reached()?.keys_of(scope).await
    }

    async fn signing_keys(&self) -> Result<Vec<SigningKey>, StoreError> {
        self.reached()?.signing_keys().await
    }

    async fn audit(
        &self,
        scope: &Scope,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        self.reached()?.audit(scope, before, limit).await
    }

    async fn surroundings(
        &self,
        scope: &Scope,
        id: JobId,
    ) -> Result<Option<(Job, Surroundings)>, StoreError> {
        self.reached()?.surroundings(scope, id).await
    }

    async fn overdue(&self, limit: usize) -> Result<Vec<Overdue>, StoreError> {
        self.reached()?.overdue(limit).await
    }

    async fn next_due(&self, after: Timestamp) -> Result<Upcoming, StoreError> {
        self.reached()?.next_due(after).await
    }

    async fn number_events(&self, limit: usize) -> Result<usize, StoreError> {
        self.reached()?.number_events(limit).await
    }

    async fn events(&self, after: u64, limit: usize) -> Result<Vec<NumberedEvent>, StoreError> {
        self.reached()?.events(after, limit).await
    }

    async fn tidy(&self, limit: usize) -> Result<usize, StoreError> {
        self.reached()?.tidy(limit).await
    }

    fn writers(&self) -> usize {
        self.inside().writers()
    }

    fn is_shared(&self) -> bool {
        self.inside().is_shared()
    }

    async fn attend(&self, node: &NodeCard) -> Result<Attendance, StoreError> {
        self.reached()?.attend(node).await
    }

    async fn settings_version(&self) -> Result<u64, StoreError> {
        self.reached()?.settings_version().await
    }

    async fn confirm_settings(&self, node: &NodeCard, version: u64) -> Result<(), StoreError> {
        self.reached()?.confirm_settings(node, version).await
    }

    async fn unconfirmed_nodes(&self, version: u64) -> Result<Vec<UnconfirmedNode>, StoreError> {
        self.reached()?.unconfirmed_nodes(version).await
    }

    async fn versions(&self, ids: &[JobId]) -> Result<BTreeMap<JobId, u64>, StoreError> {
        self.reached()?.versions(ids).await
    }

    fn tell(&self, news: News) {
        if let Some(store) = self.reached().ok().filter(|_| !self.is_deaf()) {
            store.tell(news);
        }
    }

    async fn news(&self) -> News {
        if self.is_deaf() {
            return std::future::pending().await;
        }
        self.inside().news().await
    }
}
