//! The other side behind an address: the same verbs over HTTP.
//!
//! Nothing is tried again in here but in one place: a claim that was broken off because the runner stops. Whoever
//! asks has the patience, and everything that is asked has a name, a token or a key, so that a repeat is safe.

mod read;
mod write;

use crate::backend::{Backend, BackendResult, ClaimResult, HeartbeatResult, SettleResult};
use async_trait::async_trait;
use client::{Client, ClientError};
use engine::{
    Beat, ClaimRequest, JobDraft, JobId, JobType, PolicyDraft, Refusal, Release, Report,
    StepAnswer, StepReport, Tenant, WorkerId,
};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use wire::{
    HeartbeatRequest, LeaveRequest, PolicyShape, ReleaseRequest, SettleRequest, SubmitRequest,
};

pub(crate) struct Remote {
    /// For claims, heartbeats and reports: nothing that a handler does can hold up its connections.
    office: Client,
    /// For what handlers ask, where they live.
    errands: Client,
    /// How long a claim waits for a job.
    wait: Duration,
}

/// How long a claim waits for a job where nobody says otherwise.
pub(crate) const WAIT: Duration = Duration::from_secs(30);
/// Jobs that one claim brings at most: payloads may be large, and all of an answer is in memory.
const CLAIM_MAX: usize = 100;
/// Reports that are sent at once: a page of the longest ones must stay under what a server reads.
const PAGE_MAX: usize = 250;
/// A heartbeat that takes longer is sent again, on another connection.
const HEARTBEAT_MAX: Duration = Duration::from_secs(5);
/// Who gets nothing sooner than this was sent away, and does not come back at once.
const TOO_SOON: Duration = Duration::from_secs(1);

impl Remote {
    pub(crate) fn over(client: Client, wait: Duration) -> Result<Self, ClientError> {
        Ok(Remote { office: client.apart()?, errands: client, wait })
    }

    async fn ask(&self, request: &ClaimRequest, wait: Duration) -> ClaimResult {
        let answer = self.office.claim(&write::claim(request, wait)).await?;
        Ok(answer.jobs.into_iter().filter_map(read::claimed_job).collect())
    }

    /// Waits for jobs as long as the other side lets us.
    async fn wait(&self, request: &ClaimRequest) -> ClaimResult {
        let begun = Instant::now();
        let jobs = self.ask(request, self.wait).await?;
        if jobs.is_empty() && begun.elapsed() < TOO_SOON.min(self.wait) {
            sleep(TOO_SOON).await;
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
            got = self.wait(&request) => return got,
            () = closing.cancelled() => {}
        }
        // The request is dropped: nothing stays leased, unless the answer was on its way.
        self.claim(ClaimRequest { max: 1, ..request }).await
    }

    async fn claim(&self, request: ClaimRequest) -> ClaimResult {
        self.ask(&request, Duration::ZERO).await
    }

    async fn heartbeat(&self, worker: &WorkerId, heartbeats: Vec<Beat>) -> HeartbeatResult {
        let leases = heartbeats.into_iter().map(|heartbeat| write::heartbeat(heartbeat).into());
        let leases: Vec<_> = leases.collect();
        let count = leases.len();
        let request = HeartbeatRequest { worker_id: worker.to_string(), leases };
        let answered = timeout(HEARTBEAT_MAX, self.office.heartbeat(&request)).await;
        let answered = answered.map_err(|_| read::unknown("heartbeats were not answered"))??;
        read::whole(answered.leases.iter().map(read::lease_status).collect(), count)
    }

    async fn settle(&self, reports: Vec<Report>) -> SettleResult {
        let mut verdicts = Vec::with_capacity(reports.len());
        for page in reports.chunks(PAGE_MAX) {
            let items = page.iter().map(|report| write::report(report).into()).collect();
            let answer = self.office.settle(&SettleRequest { items }).await?;
            verdicts.extend(read::verdicts(answer, page.len())?);
        }
        Ok(verdicts)
    }

    async fn release(&self, releases: Vec<Release>) -> SettleResult {
        let items = releases.iter().map(|release| write::release(release).into()).collect();
        let answer = self.office.release(&ReleaseRequest { items }).await?;
        read::verdicts(answer, releases.len())
    }

    async fn leave(&self, worker: &WorkerId) -> BackendResult<()> {
        let request = LeaveRequest { worker_id: worker.to_string() };
        Ok(self.office.leave(&request).await.map(drop)?)
    }

    async fn step(&self, step: StepReport) -> BackendResult<StepAnswer> {
        Ok(read::step(self.errands.step(&write::step(&step)).await?))
    }

    async fn submit(&self, _: &Tenant, draft: JobDraft) -> BackendResult<JobId> {
        // Whose it is says the credential, or, where that is for all, the job that it is a child of.
        let request = SubmitRequest::try_from(draft).map_err(Refusal::from)?;
        let submitted = self.errands.submit(&request).await?;
        JobId::parse(&submitted.job_id).map_err(|_| read::unknown("a job without a name"))
    }

    async fn set_policy(&self, job_type: JobType, policy: &PolicyDraft) -> BackendResult<()> {
        let policy = policy.check().map_err(Refusal::Invalid)?;
        let set = self.errands.set_type(job_type.as_str(), &PolicyShape::from(&policy)).await;
        Ok(set.map(drop)?)
    }

    fn leases_lapse_unheard(&self) -> bool {
        true
    }
}
