//! What both backends do. [`Consign`](crate::Consign) describes each method.

use crate::Error;
use async_trait::async_trait;
use client::Client;
use engine::JobId;
use std::time::Duration;
use wire::{Explanation, FullJob, JobStatus, QueueStatus, SubmittedJob, Transition};
use worker::{JobRequest, Runner};

#[async_trait]
pub(crate) trait ConsignBackend: Send + Sync {
    async fn submit(&self, request: JobRequest) -> Result<SubmittedJob, Error>;
    async fn submit_all(&self, requests: Vec<JobRequest>) -> Result<Vec<SubmittedJob>, Error>;
    async fn status(&self, id: JobId) -> Result<JobStatus, Error>;
    async fn job(&self, id: JobId) -> Result<FullJob, Error>;
    async fn wait(&self, id: JobId, longest: Duration) -> Result<JobStatus, Error>;
    async fn history(&self, id: JobId) -> Result<Vec<Transition>, Error>;
    async fn explain(&self, id: JobId) -> Result<Explanation, Error>;
    async fn cancel(&self, id: JobId) -> Result<JobStatus, Error>;
    async fn redrive(&self, id: JobId) -> Result<JobStatus, Error>;
    async fn discard(&self, id: JobId) -> Result<JobStatus, Error>;
    async fn queues(&self) -> Result<Vec<QueueStatus>, Error>;
    fn runner(&self) -> Runner;

    async fn close(&self) {}

    fn client(&self) -> Option<&Client> {
        None
    }

    #[cfg(feature = "local")]
    fn local(&self) -> Option<&crate::local::Local> {
        None
    }
}
