//! The backend in this process.

use crate::{
    backend::{
        Backend, BackendError, BackendResult, ClaimResult, ClaimedJob, HeartbeatResult,
        LeaseStatus, ReportResult, SettleResult,
    },
    children::Child,
    job_info::JobInfo,
};
use async_trait::async_trait;
use engine::{
    ClaimRequest, Heartbeat, Job, JobDraft, JobId, JobType, LeaseState, LeaseToken, PolicyDraft,
    Release, Report, Scope, StepAnswer, StepReport, Tenant, WorkerId,
};
use platform::{Error, Node, Platform};
use std::sync::Arc;
use store::{Claimed, PAGE_MAX};
use tokio_util::sync::CancellationToken;

pub(crate) struct Local {
    verbs: Verbs,
    scope: Scope,
}

/// A running node, or, in a test, the verbs alone, where no claim waits for jobs.
enum Verbs {
    Node(Arc<Node>),
    #[cfg(feature = "testing")]
    Platform(Arc<Platform>),
}

impl Local {
    pub(crate) fn new(node: Arc<Node>, scope: Scope) -> Self {
        Local { verbs: Verbs::Node(node), scope }
    }

    #[cfg(feature = "testing")]
    pub(crate) fn for_tests(platform: Arc<Platform>) -> Self {
        Local { verbs: Verbs::Platform(platform), scope: Scope::All }
    }

    fn platform(&self) -> &Platform {
        match &self.verbs {
            Verbs::Node(node) => node.platform(),
            #[cfg(feature = "testing")]
            Verbs::Platform(platform) => platform,
        }
    }
}

#[async_trait]
impl Backend for Local {
    async fn claim_waiting(
        &self,
        request: ClaimRequest,
        closing: &CancellationToken,
    ) -> ClaimResult {
        let mut waiting_claim = match &self.verbs {
            Verbs::Node(node) => node.claim_waiting(self.scope.clone(), request),
            #[cfg(feature = "testing")]
            Verbs::Platform(_) => return self.claim(request).await,
        };
        let claimed = tokio::select! {
            biased;
            claimed = &mut waiting_claim => claimed,
            () = closing.cancelled() => waiting_claim.withdraw().await,
        };
        Ok(claimed_jobs(claimed.map_err(Error::from)?))
    }

    async fn claim(&self, request: ClaimRequest) -> ClaimResult {
        Ok(claimed_jobs(self.platform().claim(&self.scope, request).await?))
    }

    async fn heartbeat(&self, worker: &WorkerId, heartbeats: Vec<Heartbeat>) -> HeartbeatResult {
        let lease_states = self.platform().heartbeat(&self.scope, worker, heartbeats).await?;
        Ok(lease_states.into_iter().map(lease_status).collect())
    }

    async fn settle(&self, reports: Vec<Report>) -> SettleResult {
        let results = self.platform().settle(&self.scope, reports).await?;
        Ok(results.into_iter().map(report_result).collect())
    }

    async fn release(&self, releases: Vec<Release>) -> SettleResult {
        let results = self.platform().release(&self.scope, releases).await?;
        Ok(results.into_iter().map(report_result).collect())
    }

    async fn leave(&self, worker: &WorkerId) -> BackendResult<()> {
        Ok(self.platform().leave(&self.scope, worker).await?)
    }

    async fn step(&self, step: StepReport) -> BackendResult<StepAnswer> {
        Ok(self.platform().step(&self.scope, step).await?)
    }

    async fn children(&self, parent: JobId, token: LeaseToken) -> BackendResult<Vec<Child>> {
        let (mut children, mut before) = (Vec::new(), None);
        loop {
            let lease = (parent, token);
            let page = self.platform().children(&self.scope, lease, before, PAGE_MAX).await?;
            children.extend(page.jobs.iter().map(child));
            before = page.next;
            if before.is_none() {
                children.reverse();
                return Ok(children);
            }
        }
    }

    async fn submit(&self, tenant: &Tenant, draft: JobDraft) -> BackendResult<JobId> {
        Ok(self.platform().submit(tenant, draft).await?.job_id)
    }

    async fn set_policy(&self, job_type: JobType, policy: &PolicyDraft) -> BackendResult<()> {
        Ok(self.platform().set_policy(job_type, policy, None).await.map(drop)?)
    }

    fn leases_expire_when_unreachable(&self) -> bool {
        match &self.verbs {
            // An outage of a node's own store extends all leases; a shared one may be away for this
            // node alone.
            Verbs::Node(node) => node.is_shared(),
            #[cfg(feature = "testing")]
            Verbs::Platform(_) => false,
        }
    }
}

fn claimed_jobs(claimed: Vec<Claimed>) -> Vec<ClaimedJob> {
    let claimed_job =
        |Claimed { job, payload }| Some(ClaimedJob { info: job_info(&job)?, payload });
    claimed.into_iter().filter_map(claimed_job).collect()
}

/// What a worker learns of a job; none where the job has no lease.
fn job_info(job: &Job) -> Option<JobInfo> {
    let (envelope, lease) = (&job.envelope, job.lease()?);
    Some(JobInfo {
        id: envelope.id,
        job_type: envelope.job_type.clone(),
        tenant: envelope.tenant.clone(),
        subject: envelope.subject.clone(),
        correlation: envelope.correlation.clone(),
        priority: envelope.priority,
        attempt: job.life.attempt,
        max_attempts: job.max_attempts,
        created_at: envelope.created_at,
        redrive_count: job.life.redrive_count,
        parent: envelope.parent,
        traceparent: envelope.traceparent.clone(),
        payload_version: envelope.payload_version.clone(),
        token: lease.token,
        lease: lease.length,
        timeout: lease.deadline.since(lease.started_at),
    })
}

fn child(job: &Job) -> Child {
    let (envelope, life) = (&job.envelope, &job.life);
    let failure = life.last_failure.as_ref();
    Child {
        id: job.id(),
        job_type: envelope.job_type.clone(),
        subject: envelope.subject.as_ref().map(ToString::to_string),
        key: envelope.key.as_ref().map(|key| key.name.as_str().to_owned()),
        status: job.status(),
        error_code: failure.map(|failure| failure.code.to_string()),
        error_message: failure.and_then(|failure| failure.message.as_deref().map(Into::into)),
        message: life.message.as_deref().map(Into::into),
        result_url: life.result_url.as_ref().map(ToString::to_string),
        result: life.result.clone(),
    }
}

/// The lease of a damaged job cannot be kept.
fn lease_status(lease_state: Result<LeaseState, Error>) -> LeaseStatus {
    match lease_state {
        Ok(LeaseState::Extended(_)) => LeaseStatus::Kept,
        Ok(LeaseState::CancelRequested(_)) => LeaseStatus::CancelRequested,
        Ok(LeaseState::Lost | LeaseState::Ended) | Err(_) => LeaseStatus::Lost,
    }
}

fn report_result(result: platform::SettleResult) -> ReportResult {
    result.map(drop).map_err(BackendError::from)
}

impl From<Error> for BackendError {
    fn from(error: Error) -> Self {
        match error {
            Error::Refused(refusal) => refusal.into(),
            Error::Store(source) => {
                BackendError::Unavailable { retry_after: None, source: source.into() }
            }
            Error::OutcomeUnknown { source, .. } => {
                BackendError::Unknown { retry_after: None, source: source.into() }
            }
        }
    }
}
