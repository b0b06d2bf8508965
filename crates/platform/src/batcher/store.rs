//! A batcher is a store: writes are gathered, reads go straight through.

use super::{Batcher, call::Asked};
use ::store::{
    Attendance, News, NodeCard, NumberedEvent, Overdue, Page, PoisonCounts, Query, QueueDepth,
    Reply, Request, Store, StoreError, UnconfirmedNode, Upcoming, WorkerSeen,
};
use async_trait::async_trait;
use engine::{
    ApiKey, AuditEntry, Event, HistoryEntry, Job, JobId, JobType, JsonText, Policy, Scope,
    SigningKey, Surroundings, Timestamp,
};
use std::collections::{BTreeMap, BTreeSet};

#[async_trait]
impl Store for Batcher {
    async fn execute(&self, batch: Vec<Request>) -> Result<Vec<Reply>, StoreError> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        Asked::new(&self.office, batch)?.await
    }

    async fn job(&self, scope: &Scope, id: JobId) -> Result<Option<Job>, StoreError> {
        self.office.store.job(scope, id).await
    }

    async fn payload(&self, scope: &Scope, id: JobId) -> Result<Option<JsonText>, StoreError> {
        self.office.store.payload(scope, id).await
    }

    async fn history(
        &self,
        scope: &Scope,
        id: JobId,
        after: u64,
    ) -> Result<Vec<HistoryEntry>, StoreError> {
        self.office.store.history(scope, id, after).await
    }

    async fn announced(
        &self,
        scope: &Scope,
        id: JobId,
        after: u64,
    ) -> Result<Vec<Event>, StoreError> {
        self.office.store.announced(scope, id, after).await
    }

    async fn list(&self, query: &Query) -> Result<Page, StoreError> {
        self.office.store.list(query).await
    }

    async fn queues(&self, scope: &Scope) -> Result<Vec<QueueDepth>, StoreError> {
        self.office.store.queues(scope).await
    }

    async fn poison_counts(
        &self,
        scope: &Scope,
        job_type: Option<&JobType>,
    ) -> Result<PoisonCounts, StoreError> {
        self.office.store.poison_counts(scope, job_type).await
    }

    async fn workers(&self, scope: &Scope) -> Result<Vec<WorkerSeen>, StoreError> {
        self.office.store.workers(scope).await
    }

    async fn policies(&self) -> Result<BTreeMap<JobType, Policy>, StoreError> {
        self.office.store.policies().await
    }

    async fn pauses(&self) -> Result<BTreeSet<(JobType, Scope)>, StoreError> {
        self.office.store.pauses().await
    }

    async fn keys(&self) -> Result<Vec<ApiKey>, StoreError> {
        self.office.store.keys().await
    }

    async fn keys_of(&self, scope: &Scope) -> Result<Vec<ApiKey>, StoreError> {
        self.office.store.keys_of(scope).await
    }

    async fn signing_keys(&self) -> Result<Vec<SigningKey>, StoreError> {
        self.office.store.signing_keys().await
    }

    async fn audit(
        &self,
        scope: &Scope,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        self.office.store.audit(scope, before, limit).await
    }

    async fn surroundings(
        &self,
        scope: &Scope,
        id: JobId,
    ) -> Result<Option<(Job, Surroundings)>, StoreError> {
        self.office.store.surroundings(scope, id).await
    }

    async fn overdue(&self, limit: usize) -> Result<Vec<Overdue>, StoreError> {
        self.office.store.overdue(limit).await
    }

    async fn next_due(&self, after: Timestamp) -> Result<Upcoming, StoreError> {
        self.office.store.next_due(after).await
    }

    async fn number_events(&self, limit: usize) -> Result<usize, StoreError> {
        self.office.store.number_events(limit).await
    }

    async fn events(&self, after: u64, limit: usize) -> Result<Vec<NumberedEvent>, StoreError> {
        self.office.store.events(after, limit).await
    }

    async fn tidy(&self, limit: usize) -> Result<usize, StoreError> {
        self.office.store.tidy(limit).await
    }

    fn writers(&self) -> usize {
        self.office.store.writers()
    }

    fn is_shared(&self) -> bool {
        self.office.store.is_shared()
    }

    async fn attend(&self, node: &NodeCard) -> Result<Attendance, StoreError> {
        self.office.store.attend(node).await
    }

    async fn settings_version(&self) -> Result<u64, StoreError> {
        self.office.store.settings_version().await
    }

    async fn confirm_settings(&self, node: &NodeCard, version: u64) -> Result<(), StoreError> {
        self.office.store.confirm_settings(node, version).await
    }

    async fn unconfirmed_nodes(&self, version: u64) -> Result<Vec<UnconfirmedNode>, StoreError> {
        self.office.store.unconfirmed_nodes(version).await
    }

    async fn versions(&self, ids: &[JobId]) -> Result<BTreeMap<JobId, u64>, StoreError> {
        self.office.store.versions(ids).await
    }

    fn tell(&self, news: News) {
        self.office.tell(news);
    }

    async fn news(&self) -> News {
        self.office.store.news().await
    }
}
