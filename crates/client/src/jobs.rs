//! Jobs: handed over, followed, stopped.

use crate::{Client, ClientError, send::retry_after};
use reqwest::{
    Method, StatusCode,
    header::{ETAG, IF_NONE_MATCH},
};
use serde::Serialize;
use std::time::Duration;
use wire::{
    BatchAnswer, BulkAnswer, BulkRequest, ExplainShape, HistoryShape, JobShape, Page,
    RedriveRequest, StatusShape, SubmitRequest, SubmittedShape,
};

/// Which jobs a list shows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ListQuery {
    /// A filter over jobs (docs/filter.md).
    pub filter: Option<String>,
    /// How many at most.
    pub top: Option<u32>,
    /// Where the page before ended.
    pub cursor: Option<String>,
}

/// What a caller has seen of a status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Since(String);

/// What asking for a status brought.
#[derive(Clone, Debug)]
pub enum Polled {
    /// It is as it was.
    Same,
    /// It is so now.
    Now {
        /// The status.
        status: Box<StatusShape>,
        /// What to ask with next.
        since: Option<Since>,
        /// When that is worth it; none after the end.
        retry_after: Option<Duration>,
    },
}

impl Client {
    /// Hands a job over. Give it a key: then it is safe to repeat.
    pub async fn submit(&self, job: &SubmitRequest) -> Result<SubmittedShape, ClientError> {
        self.post(&["api", "jobs"], job).await
    }

    /// Hands several over, all or none.
    pub async fn submit_all(&self, jobs: &[SubmitRequest]) -> Result<BatchAnswer, ClientError> {
        let body = serde_json::json!({ "jobs": jobs });
        self.post(&["api", "jobs", "batch"], &body).await
    }

    /// How a job is now.
    pub async fn status(&self, id: &str) -> Result<StatusShape, ClientError> {
        self.get(&["api", "jobs", id, "status"]).await
    }

    /// How a job is as soon as it differs from what was seen (or, where nothing was, as soon as it has ended), or
    /// when `wait` is over.
    pub async fn poll(
        &self,
        id: &str,
        since: Option<&Since>,
        wait: Duration,
    ) -> Result<Polled, ClientError> {
        let path = ["api", "jobs", id, "status"];
        let mut request = self.patient(Method::GET, &path, wait);
        if !wait.is_zero() {
            request = request.query(&[("wait", wait.as_secs())]);
        }
        if let Some(Since(version)) = since {
            request = request.header(IF_NONE_MATCH, version);
        }
        let response = self.send(request).await?;
        if response.status() == StatusCode::NOT_MODIFIED {
            return Ok(Polled::Same);
        }
        let version = response.headers().get(ETAG).and_then(|value| value.to_str().ok());
        let since = version.map(|version| Since(version.to_owned()));
        let retry_after = retry_after(response.headers());
        let status = Box::new(self.body(response).await?);
        Ok(Polled::Now { status, since, retry_after })
    }

    /// The whole job; its payload for those who may see it.
    pub async fn job(&self, id: &str) -> Result<JobShape, ClientError> {
        self.get(&["api", "jobs", id]).await
    }

    /// All that happened to a job.
    pub async fn history(&self, id: &str) -> Result<Page<HistoryShape>, ClientError> {
        self.every_page(&["api", "jobs", id, "history"]).await
    }

    /// Why a job is not running.
    pub async fn explain(&self, id: &str) -> Result<ExplainShape, ClientError> {
        self.get(&["api", "jobs", id, "explain"]).await
    }

    /// Stops a job.
    pub async fn cancel(&self, id: &str) -> Result<StatusShape, ClientError> {
        self.read(self.request(Method::POST, &["api", "jobs", id, "cancel"])).await
    }

    /// Stops every job that a filter means.
    pub async fn cancel_matching(&self, filter: &str) -> Result<BulkAnswer, ClientError> {
        let body = BulkRequest { filter: filter.to_owned() };
        self.post(&["api", "jobs", "cancel"], &body).await
    }

    /// Gives an ended job another life.
    pub async fn redrive(
        &self,
        id: &str,
        how: &RedriveRequest,
    ) -> Result<StatusShape, ClientError> {
        self.post(&["api", "jobs", id, "redrive"], how).await
    }

    /// Erases an ended job: payload, history and all.
    pub async fn erase(&self, id: &str) -> Result<(), ClientError> {
        self.send(self.request(Method::DELETE, &["api", "jobs", id])).await.map(drop)
    }

    /// A page of jobs, newest first.
    pub async fn list(&self, query: &ListQuery) -> Result<Page<StatusShape>, ClientError> {
        self.read(self.request(Method::GET, &["api", "jobs"]).query(query)).await
    }
}
