//! A store that can fail the way stores fail: before the commit, or so that nobody knows.

use async_trait::async_trait;
use engine::{
    HistoryEntry, Job, JobId, JobType, JsonText, Policy, Scope, SeededBug, Surroundings, planted,
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};
use store::{
    Memory, NumberedEvent, Overdue, Page, Query, QueueDepth, Reply, Request, Store, StoreError,
    WorkerSeen,
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
    pub(crate) memory: Arc<Memory>,
    next: Mutex<Fault>,
}

impl Flaky {
    pub(crate) fn new(memory: Arc<Memory>) -> Self {
        Flaky { memory, next: Mutex::new(Fault::None) }
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
            Fault::None => self.memory.execute(batch).await,
            Fault::NotCommitted if planted(SeededBug::AckBeforeCommit) => {
                let before = self.memory.backup();
                let replies = self.memory.execute(batch).await;
                self.memory.rewind(before);
                replies
            }
            Fault::NotCommitted => Err(StoreError::Unavailable(None)),
            Fault::UnknownButDone => {
                self.memory.execute(batch).await?;
                Err(StoreError::OutcomeUnknown(None))
            }
            Fault::UnknownNotDone => Err(StoreError::OutcomeUnknown(None)),
        }
    }

    async fn job(&self, scope: &Scope, id: JobId) -> Result<Option<Job>, StoreError> {
        self.memory.job(scope, id).await
    }

    async fn payload(&self, scope: &Scope, id: JobId) -> Result<Option<JsonText>, StoreError> {
        self.memory.payload(scope, id).await
    }

    async fn history(
        &self,
        scope: &Scope,
        id: JobId,
        after: u64,
    ) -> Result<Vec<HistoryEntry>, StoreError> {
        self.memory.history(scope, id, after).await
    }

    async fn list(&self, query: &Query) -> Result<Page, StoreError> {
        self.memory.list(query).await
    }

    async fn queues(&self, scope: &Scope) -> Result<Vec<QueueDepth>, StoreError> {
        self.memory.queues(scope).await
    }

    async fn workers(&self, scope: &Scope) -> Result<Vec<WorkerSeen>, StoreError> {
        self.memory.workers(scope).await
    }

    async fn policies(&self) -> Result<BTreeMap<JobType, Policy>, StoreError> {
        self.memory.policies().await
    }

    async fn surroundings(
        &self,
        scope: &Scope,
        id: JobId,
    ) -> Result<Option<(Job, Surroundings)>, StoreError> {
        self.memory.surroundings(scope, id).await
    }

    async fn overdue(&self, limit: usize) -> Result<Vec<Overdue>, StoreError> {
        self.memory.overdue(limit).await
    }

    async fn number_events(&self, limit: usize) -> Result<usize, StoreError> {
        self.memory.number_events(limit).await
    }

    async fn events(&self, after: u64, limit: usize) -> Result<Vec<NumberedEvent>, StoreError> {
        self.memory.events(after, limit).await
    }

    async fn tidy(&self, limit: usize) -> Result<usize, StoreError> {
        self.memory.tidy(limit).await
    }
}
