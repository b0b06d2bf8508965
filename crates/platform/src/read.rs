//! Read jobs and workers.

use crate::{Error, JobPermission, Platform};
use engine::{Event, HistoryEntry, Job, JobId, JsonText, Refusal, Scope};
use store::{PAGE_MAX, Page, Query, WorkerSeen};

/// The most store pages that are read for one page: most jobs may be hidden from the caller.
const STORE_PAGES_MAX: usize = 10;

impl Platform {
    /// One job and its status.
    pub async fn job(&self, scope: &Scope, id: JobId) -> Result<Job, Error> {
        Ok(self.store.job(scope, id).await?.ok_or(Refusal::JobNotFound)?)
    }

    /// The payload of a job.
    pub async fn payload(&self, scope: &Scope, id: JobId) -> Result<JsonText, Error> {
        Ok(self.store.payload(scope, id).await?.ok_or(Refusal::JobNotFound)?)
    }

    /// The history of a job after row `after`.
    pub async fn history(
        &self,
        scope: &Scope,
        id: JobId,
        after: u64,
    ) -> Result<Vec<HistoryEntry>, Error> {
        let rows = self.store.history(scope, id, after).await?;
        if rows.is_empty() {
            self.job(scope, id).await?; // either nothing new, or no such job
        }
        Ok(rows)
    }

    /// The announcements of a job after row `after` of its history, in order, as far as they are
    /// retained. Each shows the job as it was at the time. There may be more after the last one.
    pub async fn events_of_job(
        &self,
        scope: &Scope,
        id: JobId,
        after: u64,
    ) -> Result<Vec<Event>, Error> {
        let events = self.store.events_of_job(scope, id, after).await?;
        if events.is_empty() {
            self.job(scope, id).await?; // either nothing new, or no such job
        }
        Ok(events)
    }

    /// One page of jobs, newest first.
    pub async fn list(&self, query: &Query) -> Result<Page, Error> {
        Ok(self.store.list(query).await?)
    }

    /// One page of the jobs that `may` allows. The store is read until the page is full or the
    /// limit of reads is reached. A page may be short, or empty, and still have a next page.
    pub async fn list_permitted(
        &self,
        query: &Query,
        may: JobPermission<'_>,
    ) -> Result<Page, Error> {
        let (mut query, limit) = (query.clone(), query.limit.clamp(1, PAGE_MAX));
        let mut jobs = Vec::new();
        for _ in 0..STORE_PAGES_MAX {
            // No more than the page can still hold, so that the next page begins where this one
            // ends.
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

    /// Every worker in scope that was alive recently.
    pub async fn workers(&self, scope: &Scope) -> Result<Vec<WorkerSeen>, Error> {
        Ok(self.store.workers(scope).await?)
    }
}
