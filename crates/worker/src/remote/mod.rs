//! The backend at a remote server: the same verbs over HTTP.
//!
//! Only one request is repeated here: a claim that was broken off because the runner stops. All
//! other retries belong to the callers. Every request has a name, a token or a key, so that a
//! repeat is safe.

mod read;
mod write;

use crate::{
    backend::{Backend, BackendResult, ClaimResult, HeartbeatResult, SettleResult},
    children::Child,
};
use async_trait::async_trait;
use client::{Client, ClientError};
use engine::{
    ClaimRequest, Heartbeat, JobDraft, JobId, JobType, LeaseToken, PolicyDraft, Refusal, Release,
    Report, StepAnswer, StepReport, Tenant, WorkerId,
};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use wire::{
    HeartbeatRequest, LeaveRequest, ReleaseRequest, SettleRequest, SubmitRequest, TypePolicy,
};

pub(crate) struct Remote {
    /// For claims, heartbeats and reports: handlers cannot hold up its connections.
    control_client: Client,
    /// For what handlers ask; used in their runtime.
    handler_client: Client,
    /// How long a claim waits for a job.
    wait: Duration,
}

/// How long a claim waits for a job by default.
pub(crate) const WAIT: Duration = Duration::from_secs(30);
/// Jobs that one claim brings at most: payloads may be large, and all of an answer is in memory.
const CLAIM_MAX: usize = 100;
/// Reports sent in one request: a page of the longest reports must stay under the server's body
/// limit.
const PAGE_MAX: usize = 250;
/// A heartbeat that takes longer is sent again, on another connection.
const HEARTBEAT_MAX: Duration = Duration::from_secs(5);
/// An empty answer before this time means that the server sent the claim away; the next claim
/// waits.
const EMPTY_CLAIM_TIME_MIN: Duration = Duration::from_secs(1);

impl Remote {
    pub(crate) fn new(client: Client, wait: Duration) -> Result<Self, ClientError> {
        Ok(Remote { control_client: client.apart()?, handler_client: client, wait })
    }

    async fn send_claim(&self, request: &ClaimRequest, wait: Duration) -> ClaimResult {
        let answer = self.control_client.claim(&write::claim(request, wait)).await?;
        Ok(answer.jobs.into_iter().filter_map(read::claimed_job).collect())
    }

    /// Waits for jobs as long as the server allows.
    async fn wait(&self, request: &ClaimRequest) -> ClaimResult {
        let started = Instant::now();
        let jobs = self.send_claim(request, self.wait).await?;
        if jobs.is_empty() && started.elapsed() < EMPTY_CLAIM_TIME_MIN.min(self.wait) {
            sleep(EMPTY_CLAIM_TIME_MIN).await;
        }
        Ok(jobs)
    }
}

#[async_trait]
impl Backend for Remote {
    async fn claim_waiting(
        &self,
        request: ClaimRequest,
        closing: &CancellationToken,
    ) -> ClaimResult {
        tokio::select! {
            biased;
            claimed = self.wait(&request) => return claimed,
            () = closing.cancelled() => {}
        }
        // Dropping the request leaves nothing leased, unless the answer was on its way.
        self.claim(ClaimRequest { max: 1, ..request }).await
    }

    async fn claim(&self, request: ClaimRequest) -> ClaimResult {
        self.send_claim(&request, Duration::ZERO).await
    }

    async fn heartbeat(&self, worker: &WorkerId, heartbeats: Vec<Heartbeat>) -> HeartbeatResult {
        let leases = heartbeats.into_iter().map(|heartbeat| write::heartbeat(heartbeat).into());
        let leases: Vec<_> = leases.collect();
        let count = leases.len();
        let request = HeartbeatRequest { worker_id: worker.to_string(), leases };
        let answer = timeout(HEARTBEAT_MAX, self.control_client.heartbeat(&request)).await;
        let answer = answer.map_err(|_| read::unknown("heartbeats were not answered"))??;
        read::check_count(answer.leases.iter().map(read::lease_status).collect(), count)
    }

    async fn settle(&self, reports: Vec<Report>) -> SettleResult {
        let mut results = Vec::with_capacity(reports.len());
        for page in reports.chunks(PAGE_MAX) {
            let items = page.iter().map(|report| write::report(report).into()).collect();
            let answer = self.control_client.settle(&SettleRequest { items }).await?;
            results.extend(read::report_results(answer, page.len())?);
        }
        Ok(results)
    }

    async fn release(&self, releases: Vec<Release>) -> SettleResult {
        let items = releases.iter().map(|release| write::release(release).into()).collect();
        let answer = self.control_client.release(&ReleaseRequest { items }).await?;
        read::report_results(answer, releases.len())
    }

    async fn leave(&self, worker: &WorkerId) -> BackendResult<()> {
        let request = LeaveRequest { worker_id: worker.to_string() };
        Ok(self.control_client.leave(&request).await.map(drop)?)
    }

    async fn step(&self, step: StepReport) -> BackendResult<StepAnswer> {
        Ok(read::step(self.handler_client.step(&write::step(&step)).await?))
    }

    async fn children(&self, parent: JobId, token: LeaseToken) -> BackendResult<Vec<Child>> {
        let lease = write::children(parent, token);
        let (mut children, mut cursor) = (Vec::new(), None);
        loop {
            let page = self.handler_client.children(&lease, cursor.as_deref()).await?;
            for child in page.items {
                children.push(read::child(child)?);
            }
            cursor = page.next_cursor;
            if cursor.is_none() {
                children.reverse();
                return Ok(children);
            }
        }
    }

    async fn submit(&self, _: &Tenant, draft: JobDraft) -> BackendResult<JobId> {
        // The tenant follows from the credential, or, where that is for all tenants, from the
        // parent job.
        let request = SubmitRequest::try_from(draft).map_err(Refusal::from)?;
        let submitted = self.handler_client.submit(&request).await?;
        JobId::parse(&submitted.job_id).map_err(|_| read::unknown("the answer has no valid job id"))
    }

    async fn set_policy(&self, job_type: JobType, policy: &PolicyDraft) -> BackendResult<()> {
        let policy = policy.check().map_err(Refusal::Invalid)?;
        let set = self.handler_client.set_type(job_type.as_str(), &TypePolicy::from(&policy)).await;
        Ok(set.map(drop)?)
    }

    fn leases_expire_when_unreachable(&self) -> bool {
        true
    }
}
