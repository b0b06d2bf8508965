//! Look at jobs and workers.

use crate::{Error, JobPermission, Platform};
use engine::{Event, HistoryEntry, Job, JobId, JsonText, Refusal, Scope};
use store::{PAGE_MAX, Page, Query, WorkerSeen};

/// A page is put together from no more pages of the store: most may be none of the caller's.
const LOOKS_MAX: usize = 10;

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

    /// One page of those jobs that `may` be seen: the store is asked again until the page is full, or it has
    /// looked at enough. A page may be short, or empty, and still say where to go on.
    pub async fn list_reached(&self, query: &Query, may: JobPermission<'_>) -> Result<Page, Error> {
        let (mut query, limit) = (query.clone(), query.limit.clamp(1, PAGE_MAX));
        let mut jobs = Vec::new();
        for _ in 0..LOOKS_MAX {
            // No more than there is room for, so that the next page begins where this one ends.
            query.limit = limit - jobs.len();
            let page = self.store.list(&query).await?;
            jobs.extend(page.jobs.into_iter().filter(|job| may(job)));
            query.before = page.next;
            if jobs.len() == limit || query.before.is_none() {
                break;
            }
        }
        Ok(Page { jobs, next: query.before })
    }

    /// Every worker in scope that has been seen lately.
    pub async fn workers(&self, scope: &Scope) -> Result<Vec<WorkerSeen>, Error> {
        Ok(self.store.workers(scope).await?)
    }
}
