//! Jobs: submit, follow, cancel.

use crate::{
    Client, ClientError,
    send::{json, retry_after},
};
use reqwest::{
    Method, StatusCode,
    header::{ETAG, IF_NONE_MATCH},
};
use serde::Serialize;
use std::time::Duration;
use wire::{
    BatchAnswer, BulkAnswer, BulkRequest, CancelAnswer, CancelRequest, Explanation, FullJob,
    JobStatus, Page, RedriveRequest, SubmitRequest, SubmittedJob, Transition,
};

/// Which jobs a list shows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ListQuery {
    /// A filter over jobs (docs/filter.md).
    pub filter: Option<String>,
    /// How many jobs at most.
    pub top: Option<u32>,
    /// The cursor of the previous page.
    pub cursor: Option<String>,
}

/// How much of a bulk action one request carries out; by default all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BulkPage {
    /// How many jobs of the filter at most.
    pub top: Option<u32>,
    /// The cursor of the previous answer.
    pub cursor: Option<String>,
}

/// The version of a status that a caller has seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusVersion(String);

/// The answer to a poll.
#[derive(Clone, Debug)]
pub enum Polled {
    /// The status has not changed.
    Same,
    /// The status has changed.
    Now {
        /// The status.
        status: Box<JobStatus>,
        /// What the next poll sends.
        since: Option<StatusVersion>,
        /// When the next poll is worth it; none after the end.
        retry_after: Option<Duration>,
    },
}

impl Client {
    /// Submits a job. With a key, the call is safe to repeat.
    pub async fn submit(&self, job: &SubmitRequest) -> Result<SubmittedJob, ClientError> {
        self.post(&["api", "jobs"], job).await
    }

    /// Submits several jobs, all or none.
    pub async fn submit_all(&self, jobs: &[SubmitRequest]) -> Result<BatchAnswer, ClientError> {
        let body = serde_json::json!({ "jobs": jobs });
        self.post(&["api", "jobs", "batch"], &body).await
    }

    /// The status of a job.
    pub async fn status(&self, id: &str) -> Result<JobStatus, ClientError> {
        self.get(&["api", "jobs", id, "status"]).await
    }

    /// The status of a job as soon as it differs from `since` (without `since`, as soon as the job
    /// has ended), or after `wait`.
    pub async fn poll(
        &self,
        id: &str,
        since: Option<&StatusVersion>,
        wait: Duration,
    ) -> Result<Polled, ClientError> {
        let path = ["api", "jobs", id, "status"];
        let mut request = self.waiting_request(Method::GET, &path, wait);
        if !wait.is_zero() {
            request = request.query(&[("wait", wait.as_secs())]);
        }
        if let Some(StatusVersion(version)) = since {
            request = request.header(IF_NONE_MATCH, version);
        }
        let response = self.send(request).await?;
        if response.status() == StatusCode::NOT_MODIFIED {
            return Ok(Polled::Same);
        }
        let version = response.headers().get(ETAG).and_then(|value| value.to_str().ok());
        let since = version.map(|version| StatusVersion(version.to_owned()));
        let retry_after = retry_after(response.headers());
        let status = Box::new(self.body(response).await?);
        Ok(Polled::Now { status, since, retry_after })
    }

    /// The whole job, with its payload for callers who may see it.
    pub async fn job(&self, id: &str) -> Result<FullJob, ClientError> {
        self.get(&["api", "jobs", id]).await
    }

    /// The history of a job.
    pub async fn history(&self, id: &str) -> Result<Page<Transition>, ClientError> {
        self.every_page(&["api", "jobs", id, "history"], None).await
    }

    /// Why a job is not running.
    pub async fn explain(&self, id: &str) -> Result<Explanation, ClientError> {
        self.get(&["api", "jobs", id, "explain"]).await
    }

    /// Cancels a job.
    pub async fn cancel(&self, id: &str) -> Result<JobStatus, ClientError> {
        self.read(self.request(Method::POST, &["api", "jobs", id, "cancel"])).await
    }

    /// Cancels a job and all its live descendants.
    pub async fn cancel_with_descendants(&self, id: &str) -> Result<CancelAnswer, ClientError> {
        let request = CancelRequest { cascade: Some(true) };
        self.post(&["api", "jobs", id, "cancel"], &request).await
    }

    /// Cancels many jobs, or a page of those that a filter matches.
    pub async fn cancel_many(
        &self,
        which: &BulkRequest,
        page: &BulkPage,
    ) -> Result<BulkAnswer, ClientError> {
        self.bulk(&["api", "jobs", "cancel"], which, page).await
    }

    /// Gives many ended jobs another life, or a page of those that a filter matches.
    pub async fn redrive_many(
        &self,
        which: &BulkRequest,
        page: &BulkPage,
    ) -> Result<BulkAnswer, ClientError> {
        self.bulk(&["api", "jobs", "redrive"], which, page).await
    }

    pub(crate) async fn bulk(
        &self,
        path: &[&str],
        which: &BulkRequest,
        page: &BulkPage,
    ) -> Result<BulkAnswer, ClientError> {
        self.read(json(self.request(Method::POST, path).query(page), which)).await
    }

    /// Gives an ended job another life.
    pub async fn redrive(
        &self,
        id: &str,
        options: &RedriveRequest,
    ) -> Result<JobStatus, ClientError> {
        self.post(&["api", "jobs", id, "redrive"], options).await
    }

    /// Erases an ended job with its payload and history.
    pub async fn erase(&self, id: &str) -> Result<(), ClientError> {
        self.send(self.request(Method::DELETE, &["api", "jobs", id])).await.map(drop)
    }

    /// A page of jobs, newest first.
    pub async fn list(&self, query: &ListQuery) -> Result<Page<JobStatus>, ClientError> {
        self.read(self.request(Method::GET, &["api", "jobs"]).query(query)).await
    }
}
