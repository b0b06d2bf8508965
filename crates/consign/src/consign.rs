//! One type for both backends: a store of this process, or a remote server.

use crate::{Error, backend::ConsignBackend, remote::Remote};
use client::{Client, ClientError};
use engine::{JobId, Refusal};
use std::{fmt::Display, sync::Arc, time::Duration};
use wire::{Explanation, FullJob, JobStatus, QueueStatus, SubmittedJob, Transition};
use worker::{JobRequest, Runner};

/// Consign for one tenant: over a store of this process, or at a remote server. Clones share it.
///
/// Both have the same methods, which take and return the same types. Only the line that opens it
/// differs:
///
/// | | jobs are |
/// |---|---|
/// | [`Consign::open`], [`Consign::in_memory`], [`Consign::postgres`] | in an own store |
/// | [`Consign::connect`] | at a server |
#[derive(Clone)]
pub struct Consign {
    pub(crate) backend: Arc<dyn ConsignBackend>,
}

impl Consign {
    /// The server at `address`, such as `http://127.0.0.1:8470`, used with `key`. Nothing is sent
    /// yet.
    ///
    /// Requests that are safe to repeat are sent again for about half a minute while the server is
    /// away. For that, a job without an idempotency key gets a random one: sent again, it is the
    /// same job. Another call of [`Consign::submit`] makes another job. With
    /// [`JobRequest::new_after_dead_end`], also a request that is sent again makes another job, if
    /// the first one came to a dead end in between.
    pub fn connect(address: &str, key: &str) -> Result<Self, ClientError> {
        Ok(Consign::with_client(Remote::client_of(address, key)?))
    }

    /// The same with an existing client.
    pub fn with_client(client: Client) -> Self {
        Consign { backend: Arc::new(Remote::new(client)) }
    }

    /// Submits a job: when this returns, the job is on disk, and so is its status.
    pub async fn submit(&self, request: JobRequest) -> Result<SubmittedJob, Error> {
        self.backend.submit(request).await
    }

    /// Submits all of these jobs, or none.
    pub async fn submit_all(&self, requests: Vec<JobRequest>) -> Result<Vec<SubmittedJob>, Error> {
        self.backend.submit_all(requests).await
    }

    /// The status of a job now. An id is a [`JobId`] or its text.
    pub async fn status(&self, id: impl Display) -> Result<JobStatus, Error> {
        self.backend.status(parsed(id)?).await
    }

    /// The whole job. A remote server adds the payload if the key has the scope `jobs:payload`.
    pub async fn job(&self, id: impl Display) -> Result<FullJob, Error> {
        self.backend.job(parsed(id)?).await
    }

    /// Waits until a job has ended, at most `longest`, and returns its status as it is then. It
    /// also returns when [`Self::close`] leaves no node to end the job.
    pub async fn wait(&self, id: impl Display, longest: Duration) -> Result<JobStatus, Error> {
        // A longer wait is pointless, and clocks cannot count much further.
        self.backend.wait(parsed(id)?, longest.min(WAIT_MAX)).await
    }

    /// The history of a job.
    pub async fn history(&self, id: impl Display) -> Result<Vec<Transition>, Error> {
        self.backend.history(parsed(id)?).await
    }

    /// Why a job does not run.
    pub async fn explain(&self, id: impl Display) -> Result<Explanation, Error> {
        self.backend.explain(parsed(id)?).await
    }

    /// Cancels a waiting job at once, and asks the handler of a running one to stop.
    pub async fn cancel(&self, id: impl Display) -> Result<JobStatus, Error> {
        self.backend.cancel(parsed(id)?).await
    }

    /// Gives an ended job another life, with all its attempts.
    pub async fn redrive(&self, id: impl Display) -> Result<JobStatus, Error> {
        self.backend.redrive(parsed(id)?).await
    }

    /// Takes a poisoned job out of the poison queue for good; it stays as it ended.
    pub async fn discard(&self, id: impl Display) -> Result<JobStatus, Error> {
        self.backend.discard(parsed(id)?).await
    }

    /// The queue of each job type.
    pub async fn queues(&self) -> Result<Vec<QueueStatus>, Error> {
        self.backend.queues().await
    }

    /// A runner for the jobs of this tenant, or of all tenants where none was chosen: add handlers,
    /// then start it.
    pub fn runner(&self) -> Runner {
        self.backend.runner()
    }

    /// Accepts no new requests, finishes those that wait, and stops. Stop runners first: jobs that
    /// they cannot report any more run again when their lease is over. A remote server goes on.
    pub async fn close(self) {
        let backend = self.backend.clone();
        drop(self);
        backend.close().await;
    }

    /// The client of a remote server, with one method per route; none for a store of this process.
    pub fn client(&self) -> Option<&Client> {
        self.backend.client()
    }
}

const WAIT_MAX: Duration = Duration::from_secs(365 * 86_400);

/// Text that is no id names no job.
fn parsed(id: impl Display) -> Result<JobId, Error> {
    Ok(JobId::parse(&id.to_string()).map_err(|_| Refusal::JobNotFound)?)
}
