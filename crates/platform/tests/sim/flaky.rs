//! A store that can fail the way stores fail: before the commit, or so that nobody knows.

use crate::ground::Ground;
use async_trait::async_trait;
use engine::{
    ApiKey, AuditEntry, Event, HistoryEntry, Job, JobId, JobType, JsonText, Policy, Scope,
    SeededBug, SigningKey, Surroundings, Timestamp, planted,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};
use store::{
    NumberedEvent, Overdue, Page, PoisonCounts, Query, QueueDepth, Reply, Request, Store,
    StoreError, Upcoming, WorkerSeen,
};

/// How the next transaction goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fault {
    #[default]
    None,
    /// It fails, and that is known.
    NotCommitted,
    /// It is done, but the answer is lost.
    UnknownButDone,
    /// It is not done, but nobody can tell.
    UnknownNotDone,
}

pub(crate) struct Flaky {
    ground: Ground,
    next: Mutex<Fault>,
}

impl Flaky {
    pub(crate) fn new(ground: Ground) -> Self {
        Flaky { ground, next: Mutex::new(Fault::None) }
    }

    /// The process dies and comes back.
    pub(crate) fn restart(&self) {
        self.ground.restart();
    }

    fn inside(&self) -> Arc<dyn Store> {
        self.ground.store()
    }

    pub(crate) fn fail_next(&self, fault: Fault) {
        *self.next.lock().unwrap() = fault;
    }
}

#[async_trait]
impl Store for Flaky {
    async fn execute(&self, batch: Vec<Request>) -> Result<Vec<Reply>, StoreError> {
        let fault = std::mem::take(&mut *self.next.lock().unwrap());
        match fault {
            Fault::None => self.inside().execute(batch).await,
            Fault::NotCommitted if planted(SeededBug::AckBeforeCommit) => {
                self.ground.execute_and_forget(batch).await
            }
            Fault::NotCommitted => Err(StoreError::Unavailable(None)),
            Fault::UnknownButDone => {
                self.inside().execute(batch).await?;
                Err(StoreError::OutcomeUnknown(None))
            }
            Fault::UnknownNotDone => Err(StoreError::OutcomeUnknown(None)),
        }
    }

    async fn job(&self, scope: &Scope, id: JobId) -> Result<Option<Job>, StoreError> {
        self.inside().job(scope, id).await
    }

    async fn payload(&self, scope: &Scope, id: JobId) -> Result<Option<JsonText>, StoreError> {
        self.inside().payload(scope, id).await
    }

    async fn history(
        &self,
        scope: &Scope,
        id: JobId,
        after: u64,
    ) -> Result<Vec<HistoryEntry>, StoreError> {
        self.inside().history(scope, id, after).await
    }

    async fn announced(
        &self,
        scope: &Scope,
        id: JobId,
        after: u64,
    ) -> Result<Vec<Event>, StoreError> {
        self.inside().announced(scope, id, after).await
    }

    async fn list(&self, query: &Query) -> Result<Page, StoreError> {
        self.inside().list(query).await
    }

    async fn queues(&self, scope: &Scope) -> Result<Vec<QueueDepth>, StoreError> {
        self.inside().queues(scope).await
    }

    async fn poison_counts(
        &self,
        scope: &Scope,
        job_type: Option<&JobType>,
    ) -> Result<PoisonCounts, StoreError> {
        self.inside().poison_counts(scope, job_type).await
    }

    async fn workers(&self, scope: &Scope) -> Result<Vec<WorkerSeen>, StoreError> {
        self.inside().workers(scope).await
    }

    async fn policies(&self) -> Result<BTreeMap<JobType, Policy>, StoreError> {
        self.inside().policies().await
    }

    async fn settings_version(&self) -> Result<u64, StoreError> {
        self.inside().settings_version().await
    }

    async fn pauses(&self) -> Result<BTreeSet<(JobType, Scope)>, StoreError> {
        self.inside().pauses().await
    }

    async fn keys(&self) -> Result<Vec<ApiKey>, StoreError> {
        self.inside().keys().await
    }

    async fn keys_of(&self, scope: &Scope) -> Result<Vec<ApiKey>, StoreError> {
        self.inside().keys_of(scope).await
    }

    async fn signing_keys(&self) -> Result<Vec<SigningKey>, StoreError> {
        self.inside().signing_keys().await
    }

    async fn audit(
        &self,
        scope: &Scope,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        self.inside().audit(scope, before, limit).await
    }

    async fn surroundings(
        &self,
        scope: &Scope,
        id: JobId,
    ) -> Result<Option<(Job, Surroundings)>, StoreError> {
        self.inside().surroundings(scope, id).await
    }

    async fn overdue(&self, limit: usize) -> Result<Vec<Overdue>, StoreError> {
        self.inside().overdue(limit).await
    }

    async fn next_due(&self, after: Timestamp) -> Result<Upcoming, StoreError> {
        self.inside().next_due(after).await
    }

    async fn number_events(&self, limit: usize) -> Result<usize, StoreError> {
        self.inside().number_events(limit).await
    }

    async fn events(&self, after: u64, limit: usize) -> Result<Vec<NumberedEvent>, StoreError> {
        self.inside().events(after, limit).await
    }

    async fn tidy(&self, limit: usize) -> Result<usize, StoreError> {
        self.inside().tidy(limit).await
    }
}
