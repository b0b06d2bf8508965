//! The backend at a remote server.

use crate::{Error, backend::ConsignBackend};
use async_trait::async_trait;
use client::{BulkPage, Client, ClientError, Polled};
use engine::{JobId, Refusal};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use wire::{
    BatchItem, BulkRequest, Explanation, FullJob, JobStatus, QueueStatus, RedriveRequest, Secret,
    SubmitRequest, SubmittedJob, Transition, codes,
};
use worker::{JobRequest, Runner};

pub(crate) struct Remote {
    client: Client,
}

/// How often a request that is safe to repeat is sent: for about half a minute.
const TRIES_MAX: u32 = 10;
const BACKOFF: engine::Backoff =
    engine::Backoff::doubling(Duration::from_millis(100), Duration::from_secs(5));
/// A longer `Retry-After` than this is returned to the caller instead of being waited for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(30);
/// How long a server is asked to hold its answer back, in seconds.
const POLL_SECONDS: u64 = 30;

impl Remote {
    pub(crate) fn new(client: Client) -> Self {
        Remote { client }
    }

    pub(crate) fn client_of(address: &str, key: &str) -> Result<Client, ClientError> {
        Client::new(address, Some(&Secret::new(key)))
    }
}

#[async_trait]
impl ConsignBackend for Remote {
    async fn submit(&self, request: JobRequest) -> Result<SubmittedJob, Error> {
        let request = repeatable(request)?;
        repeat_until_final(|| self.client.submit(&request)).await
    }

    async fn submit_all(&self, requests: Vec<JobRequest>) -> Result<Vec<SubmittedJob>, Error> {
        let requests: Vec<_> = requests.into_iter().map(repeatable).collect::<Result<_, _>>()?;
        let answer = repeat_until_final(|| self.client.submit_all(&requests)).await?;
        answer.items.into_iter().map(submitted_job).collect()
    }

    async fn status(&self, id: JobId) -> Result<JobStatus, Error> {
        let id = id.to_string();
        repeat_until_final(|| self.client.status(&id)).await
    }

    async fn job(&self, id: JobId) -> Result<FullJob, Error> {
        let id = id.to_string();
        repeat_until_final(|| self.client.job(&id)).await
    }

    async fn wait(&self, id: JobId, longest: Duration) -> Result<JobStatus, Error> {
        let (id, end) = (id.to_string(), Instant::now() + longest);
        loop {
            let remaining = end.saturating_duration_since(Instant::now());
            let seconds = POLL_SECONDS.min(remaining.as_millis().div_ceil(1_000) as u64);
            let wait = Duration::from_secs(seconds);
            let polled = repeat_until_final(|| self.client.poll(&id, None, wait));
            // `Polled::Same` cannot happen: the request names no version to compare with.
            if let Polled::Now { status, .. } = polled.await?
                && (status.completed_at.is_some() || Instant::now() >= end)
            {
                return Ok(*status);
            }
        }
    }

    async fn history(&self, id: JobId) -> Result<Vec<Transition>, Error> {
        let id = id.to_string();
        Ok(repeat_until_final(|| self.client.history(&id)).await?.items)
    }

    async fn explain(&self, id: JobId) -> Result<Explanation, Error> {
        let id = id.to_string();
        repeat_until_final(|| self.client.explain(&id)).await
    }

    async fn cancel(&self, id: JobId) -> Result<JobStatus, Error> {
        let id = id.to_string();
        repeat_until_final(|| self.client.cancel(&id)).await
    }

    async fn redrive(&self, id: JobId) -> Result<JobStatus, Error> {
        Ok(self.client.redrive(&id.to_string(), &RedriveRequest::default()).await?)
    }

    async fn discard(&self, id: JobId) -> Result<JobStatus, Error> {
        let job_ids = Some(vec![id.to_string()]);
        let which = BulkRequest { job_ids, ..BulkRequest::default() };
        let page = BulkPage::default();
        let discarded = repeat_until_final(|| self.client.discard_poison(&which, &page));
        let matched = discarded.await?.matched;
        let job = self.job(id).await?;
        // A repeat finds that an earlier request, whose answer got lost, has done it.
        if matched == 0 && job.base.discarded_at.is_none() {
            let detail = format!("the job is {}, not poisoned", job.base.status);
            return Err(Error::Refused { code: codes::NOT_POISONED.into(), detail });
        }
        Ok(job.base)
    }

    async fn queues(&self) -> Result<Vec<QueueStatus>, Error> {
        Ok(repeat_until_final(|| self.client.queues(None)).await?.items)
    }

    fn runner(&self) -> Runner {
        Runner::remote(&self.client)
    }

    fn client(&self) -> Option<&Client> {
        Some(&self.client)
    }
}

/// A request that can be sent twice: without a key of its own, it gets a random one.
fn repeatable(request: JobRequest) -> Result<SubmitRequest, Error> {
    let draft = request.or_random_key().into_draft().map_err(Refusal::from)?;
    Ok(SubmitRequest::try_from(draft).map_err(Refusal::from)?)
}

/// Only a partial batch has refused jobs, and this one is all or none.
fn submitted_job(item: BatchItem) -> Result<SubmittedJob, Error> {
    match item {
        BatchItem::Submitted(job) => Ok(job),
        BatchItem::Refused { problem } => {
            Err(Error::Refused { code: problem.error_code.into(), detail: problem.detail })
        }
    }
}

/// Repeats a request until its answer is final.
async fn repeat_until_final<T, F>(send: impl Fn() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, ClientError>>,
{
    for failures in 1..TRIES_MAX {
        let error = match send().await {
            Ok(answer) => return Ok(answer),
            Err(error) if error.is_worth_repeating() => error,
            Err(error) => return Err(error.into()),
        };
        let retry_after = error.retry_after().unwrap_or_default();
        if retry_after > RETRY_AFTER_MAX {
            return Err(error.into());
        }
        sleep(retry_after + BACKOFF.ceiling(failures)).await;
    }
    Ok(send().await?)
}
