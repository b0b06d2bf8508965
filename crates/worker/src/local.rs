//! The other side in this process.

use crate::{
    brief::Brief,
    port::{AskError, Asked, Handed, Port, Sign, Verdict},
};
use engine::{
    Job, JobDraft, JobId, JobType, JsonText, LeaseToken, PolicyDraft, Pulse, Scope, StepAnswer,
    StepName, Tenant, Wish, WorkerId,
};
use platform::{Beat, Error, Node, Platform, Release, Report, StepReport};
use std::sync::Arc;
use store::{Claimed, StoreError};
use tokio_util::sync::CancellationToken;

pub(crate) struct Local {
    verbs: Verbs,
    scope: Scope,
}

/// A node at work, or, in a test, the verbs alone: there nobody waits for jobs.
enum Verbs {
    Node(Arc<Node>),
    Platform(Arc<Platform>),
}

impl Local {
    pub(crate) fn over(node: Arc<Node>, scope: Scope) -> Self {
        Local { verbs: Verbs::Node(node), scope }
    }

    pub(crate) fn by_hand(platform: Arc<Platform>) -> Self {
        Local { verbs: Verbs::Platform(platform), scope: Scope::All }
    }

    fn platform(&self) -> &Platform {
        match &self.verbs {
            Verbs::Node(node) => node.platform(),
            Verbs::Platform(platform) => platform,
        }
    }
}

impl Port for Local {
    fn stand<'a>(&'a self, wish: Wish, closing: &'a CancellationToken) -> Asked<'a, Vec<Handed>> {
        let node = match &self.verbs {
            Verbs::Node(node) => node,
            Verbs::Platform(_) => return self.claim(wish),
        };
        let mut standing = node.stand(self.scope.clone(), wish);
        Box::pin(async move {
            let got = tokio::select! {
                biased;
                got = &mut standing => got,
                () = closing.cancelled() => standing.withdraw().await,
            };
            Ok(handed(got.map_err(Error::from)?))
        })
    }

    fn claim(&self, wish: Wish) -> Asked<'_, Vec<Handed>> {
        Box::pin(async { Ok(handed(self.platform().claim(&self.scope, wish).await?)) })
    }

    fn heartbeat<'a>(&'a self, worker: &'a WorkerId, beats: Vec<Beat>) -> Asked<'a, Vec<Sign>> {
        Box::pin(async {
            let pulses = self.platform().heartbeat(&self.scope, worker, beats).await?;
            Ok(pulses.into_iter().map(sign).collect())
        })
    }

    fn settle(&self, reports: Vec<Report>) -> Asked<'_, Vec<Verdict>> {
        Box::pin(async {
            let verdicts = self.platform().settle(&self.scope, reports).await?;
            Ok(verdicts.into_iter().map(verdict).collect())
        })
    }

    fn release(&self, releases: Vec<Release>) -> Asked<'_, Vec<Verdict>> {
        Box::pin(async {
            let verdicts = self.platform().release(&self.scope, releases).await?;
            Ok(verdicts.into_iter().map(verdict).collect())
        })
    }

    fn leave<'a>(&'a self, worker: &'a WorkerId) -> Asked<'a, ()> {
        Box::pin(async { Ok(self.platform().leave(&self.scope, worker).await?) })
    }

    fn begin_step(&self, id: JobId, token: LeaseToken, name: StepName) -> Asked<'_, StepAnswer> {
        let step = StepReport { id, token, name, result: None };
        Box::pin(async { Ok(self.platform().step(&self.scope, step).await?) })
    }

    fn finish_step(
        &self,
        id: JobId,
        token: LeaseToken,
        name: StepName,
        result: JsonText,
    ) -> Asked<'_, StepAnswer> {
        let step = StepReport { id, token, name, result: Some(result) };
        Box::pin(async { Ok(self.platform().step(&self.scope, step).await?) })
    }

    fn submit<'a>(&'a self, tenant: &'a Tenant, draft: JobDraft) -> Asked<'a, JobId> {
        Box::pin(async { Ok(self.platform().submit(tenant, draft).await?.job_id) })
    }

    fn set_policy<'a>(&'a self, job_type: JobType, policy: &'a PolicyDraft) -> Asked<'a, ()> {
        Box::pin(async { Ok(self.platform().set_policy(job_type, policy, None).await.map(drop)?) })
    }

    fn leases_lapse_unheard(&self) -> bool {
        match &self.verbs {
            // A store of one process is away for everybody at once, and its outage extends all leases. One that is
            // shared may be away for us alone.
            Verbs::Node(node) => node.is_shared(),
            Verbs::Platform(_) => false,
        }
    }
}

fn handed(claimed: Vec<Claimed>) -> Vec<Handed> {
    let hand = |Claimed { job, payload }| Some(Handed { brief: brief(&job)?, payload });
    claimed.into_iter().filter_map(hand).collect()
}

/// What a job tells its worker; nothing where it has no lease.
fn brief(job: &Job) -> Option<Brief> {
    let (envelope, lease) = (&job.envelope, job.lease()?);
    Some(Brief {
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

/// Nobody can keep the lease of a job that is damaged.
fn sign(pulse: Result<Pulse, Error>) -> Sign {
    match pulse {
        Ok(Pulse::Extended(_)) => Sign::Kept,
        Ok(Pulse::CancelRequested(_)) => Sign::CancelRequested,
        Ok(Pulse::Lost | Pulse::Ended) | Err(_) => Sign::Lost,
    }
}

fn verdict(verdict: platform::Verdict) -> Verdict {
    verdict.map(drop).map_err(AskError::from)
}

impl From<Error> for AskError {
    fn from(error: Error) -> Self {
        match error {
            Error::Refused(refusal) => {
                AskError::Refused { code: refusal.code().into(), detail: refusal.to_string() }
            }
            Error::Store(source) => away(source),
            Error::OutcomeUnknown { source, .. } => {
                AskError::Unknown { retry_after: None, source: source.into() }
            }
        }
    }
}

fn away(source: StoreError) -> AskError {
    AskError::Away { retry_after: None, source: source.into() }
}
