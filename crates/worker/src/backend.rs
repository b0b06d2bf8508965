//! The other side, as a runner needs it: whoever has the jobs, in this process or behind an address.

use crate::{job_info::JobInfo, system};
use async_trait::async_trait;
use engine::{
    Beat, ClaimRequest, JobDraft, JobId, JobType, JsonText, PolicyDraft, Refusal, Release, Report,
    StepAnswer, StepReport, Tenant, WorkerId,
};
use std::{borrow::Cow, error::Error, pin::Pin, time::Duration};
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

/// Everything that a runner and its handlers ask of the other side.
#[async_trait]
pub(crate) trait Backend: Send + Sync {
    /// Waits for jobs until there are some, the other side has nothing for long, or `closing`: then it waits no
    /// longer, and gives only what is on its way.
    async fn claim_waiting(
        &self,
        request: ClaimRequest,
        closing: &CancellationToken,
    ) -> ClaimResult;

    /// Claims what there is now.
    async fn claim(&self, request: ClaimRequest) -> ClaimResult;

    /// Keeps leases; one answer for each, in their order.
    async fn heartbeat(&self, worker: &WorkerId, heartbeats: Vec<Beat>) -> HeartbeatResult;

    /// Says how attempts ended; one verdict for each, in their order.
    async fn settle(&self, reports: Vec<Report>) -> SettleResult;

    /// Gives jobs back; one verdict for each, in their order.
    async fn release(&self, releases: Vec<Release>) -> SettleResult;

    /// Signs a worker off.
    async fn leave(&self, worker: &WorkerId) -> BackendResult<()>;

    /// Marks that a step begins, or tells what is known of it; with a result, remembers it.
    async fn step(&self, step: StepReport) -> BackendResult<StepAnswer>;

    /// Hands over a job of `tenant`.
    async fn submit(&self, tenant: &Tenant, draft: JobDraft) -> BackendResult<JobId>;

    /// Sets how jobs of a type are treated.
    async fn set_policy(&self, job_type: JobType, policy: &PolicyDraft) -> BackendResult<()>;

    /// Whether leases run out on the other side while it cannot be reached.
    fn leases_lapse_unheard(&self) -> bool;
}

pub(crate) type BackendResult<T> = Result<T, BackendError>;
pub(crate) type ClaimResult = BackendResult<Vec<ClaimedJob>>;
pub(crate) type HeartbeatResult = BackendResult<Vec<LeaseStatus>>;
pub(crate) type SettleResult = BackendResult<Vec<Verdict>>;

pub(crate) type BackendFuture<'a, T> = Pin<Box<dyn Future<Output = BackendResult<T>> + Send + 'a>>;

pub(crate) struct ClaimedJob {
    pub(crate) info: JobInfo,
    pub(crate) payload: JsonText,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeaseStatus {
    Kept,
    CancelRequested,
    Lost,
}

/// What the end of one attempt came to. An error that is no refusal is that this job is damaged; what is wrong
/// with the whole other side fails the whole call.
pub(crate) type Verdict = Result<(), BackendError>;

/// Why the other side did not do what a runner asked of it.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// The contract says no, and would say so again.
    #[error("{detail}")]
    Refused {
        /// The stable code.
        code: Cow<'static, str>,
        /// Why.
        detail: String,
    },
    /// The credential is not taken, or not for this.
    #[error("the key is not taken for this ({code}): {detail}")]
    Unwelcome {
        /// The stable code.
        code: Cow<'static, str>,
        /// Why.
        detail: String,
    },
    /// Nothing was done; the same again may work later.
    #[error("it could not be handed over")]
    Away {
        /// When it is worth asking again, if the other side said so.
        retry_after: Option<Duration>,
        /// What happened.
        source: Box<dyn Error + Send + Sync>,
    },
    /// Nobody knows whether it was done. A repeat is safe.
    #[error("whether it was done is not known")]
    Unknown {
        /// When it is worth asking again, if the other side said so.
        retry_after: Option<Duration>,
        /// What happened.
        source: Box<dyn Error + Send + Sync>,
    },
}

impl From<Refusal> for BackendError {
    fn from(refusal: Refusal) -> Self {
        BackendError::Refused { code: refusal.code().into(), detail: refusal.to_string() }
    }
}

/// What was logged last: one trouble is logged once, and not whenever it is met.
#[derive(Default)]
pub(crate) struct LogOnce {
    unwelcome: Option<bool>,
}

impl LogOnce {
    /// Logs what does not work, if it is new. A key that is not taken needs an operator.
    pub(crate) fn failed(&mut self, what: &str, cause: &BackendError) {
        let unwelcome = matches!(cause, BackendError::Unwelcome { .. });
        if self.unwelcome.replace(unwelcome) == Some(unwelcome) {
            return;
        }
        let error: &dyn Error = cause;
        if unwelcome {
            error!(error, "{what}: give this worker another key; it goes on trying, slowly");
        } else {
            warn!(error, "{what}; trying again");
        }
    }

    /// It works; says whether it did not before.
    pub(crate) fn recovered(&mut self) -> bool {
        self.unwelcome.take().is_some()
    }
}

/// Waits that grow: for a caller that asks the backend again what did not work.
#[derive(Default)]
pub(crate) struct Backoff {
    failures: u32,
}

impl Backoff {
    const WAITS: engine::Backoff =
        engine::Backoff::doubling(Duration::from_millis(50), Duration::from_secs(5));
    /// Nobody changes a key every second.
    const UNWELCOME: Duration = Duration::from_secs(5);
    /// A caller that is told to wait for longer asks again all the same.
    const OBEYED_MAX: Duration = Duration::from_secs(60);

    /// How long to wait this time: never shorter than the backend asks for, and not as long as all
    /// other callers who were told the same.
    pub(crate) fn after(&mut self, error: &BackendError) -> Duration {
        self.failures = self.failures.saturating_add(1);
        let asked = match error {
            BackendError::Unwelcome { .. } => Self::UNWELCOME,
            BackendError::Refused { .. } => Duration::ZERO,
            BackendError::Away { retry_after, .. } | BackendError::Unknown { retry_after, .. } => {
                retry_after.unwrap_or_default().min(Self::OBEYED_MAX)
            }
        };
        asked + Self::WAITS.spread(self.failures, system::random())
    }
}
