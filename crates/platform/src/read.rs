//! Look at jobs and workers.

use crate::{Error, Platform};
use engine::{Event, HistoryEntry, Job, JobId, JsonText, Refusal, Scope};
use store::{Page, Query, WorkerSeen};

impl Platform {
    /// One job and its status.
    pub async fn job(&self, scope: &Scope, id: JobId) -> Result<Job, Error> {
        Ok(self.store.job(scope, id).await?.ok_or(Refusal::JobNotFound)?)
    }

    /// What a job was handed over with.
    pub async fn payload(&self, scope: &Scope, id: JobId) -> Result<JsonText, Error> {
        Ok(self.store.payload(scope, id).await?.ok_or(Refusal::JobNotFound)?)
    }

    /// What has happened to a job after row `after`.
    pub async fn history(
        &self,
        scope: &Scope,
        id: JobId,
        after: u64,
    ) -> Result<Vec<HistoryEntry>, Error> {
        let rows = self.store.history(scope, id, after).await?;
        if rows.is_empty() {
            self.job(scope, id).await?; // nothing new, or nothing at all
        }
        Ok(rows)
    }

    /// The announcements of a job after row `after` of its history, in order, as far as they are kept:
    /// each says what the job was like when it happened. There may be more after the last of them.
    pub async fn announced(
        &self,
        scope: &Scope,
        id: JobId,
        after: u64,
    ) -> Result<Vec<Event>, Error> {
        let events = self.store.announced(scope, id, after).await?;
        if events.is_empty() {
            self.job(scope, id).await?; // nothing new, or nothing at all
        }
        Ok(events)
    }

    /// One page of jobs, newest first.
    pub async fn list(&self, query: &Query) -> Result<Page, Error> {
        Ok(self.store.list(query).await?)
    }

    /// Every worker in scope that has been seen lately.
    pub async fn workers(&self, scope: &Scope) -> Result<Vec<WorkerSeen>, Error> {
        Ok(self.store.workers(scope).await?)
    }
}
