//! What a runner needs of its backend: a platform in this process, or a remote server.

use crate::{children::Child, job_info::JobInfo, system};
use async_trait::async_trait;
use engine::{
    ClaimRequest, Heartbeat, JobDraft, JobId, JobType, JsonText, LeaseToken, PolicyDraft, Refusal,
    Release, Report, StepAnswer, StepReport, Tenant, WorkerId,
};
use std::{borrow::Cow, error::Error, pin::Pin, time::Duration};
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

/// Everything that a runner and its handlers ask of the backend.
#[async_trait]
pub(crate) trait Backend: Send + Sync {
    /// Waits for jobs until there are some, until the backend has had none for long, or until
    /// `closing`. After `closing` it returns only jobs that are already on their way.
    async fn claim_waiting(
        &self,
        request: ClaimRequest,
        closing: &CancellationToken,
    ) -> ClaimResult;

    /// Claims the jobs that are due now.
    async fn claim(&self, request: ClaimRequest) -> ClaimResult;

    /// Extends leases; one answer for each, in their order.
    async fn heartbeat(&self, worker: &WorkerId, heartbeats: Vec<Heartbeat>) -> HeartbeatResult;

    /// Reports how attempts ended; one result for each, in their order.
    async fn settle(&self, reports: Vec<Report>) -> SettleResult;

    /// Gives jobs back; one result for each, in their order.
    async fn release(&self, releases: Vec<Release>) -> SettleResult;

    async fn leave(&self, worker: &WorkerId) -> BackendResult<()>;

    /// Marks that a step begins and returns what is known of it; with a result, remembers the
    /// result.
    async fn step(&self, step: StepReport) -> BackendResult<StepAnswer>;

    /// All children of a leased job, oldest first.
    async fn children(&self, parent: JobId, token: LeaseToken) -> BackendResult<Vec<Child>>;

    async fn submit(&self, tenant: &Tenant, draft: JobDraft) -> BackendResult<JobId>;

    /// Sets how jobs of a type are treated.
    async fn set_policy(&self, job_type: JobType, policy: &PolicyDraft) -> BackendResult<()>;

    /// Whether leases run out at the backend while this runner cannot reach it.
    fn leases_expire_when_unreachable(&self) -> bool;
}

pub(crate) type BackendResult<T> = Result<T, BackendError>;
pub(crate) type ClaimResult = BackendResult<Vec<ClaimedJob>>;
pub(crate) type HeartbeatResult = BackendResult<Vec<LeaseStatus>>;
pub(crate) type SettleResult = BackendResult<Vec<ReportResult>>;

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

/// The outcome of one report. An error that is no refusal means that this job is damaged; a failure
/// of the whole backend fails the whole call.
pub(crate) type ReportResult = Result<(), BackendError>;

/// Why the backend did not do what a runner asked of it.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// The contract refuses it, and would refuse it again.
    #[error("{detail}")]
    Refused {
        /// The stable code.
        code: Cow<'static, str>,
        /// Why.
        detail: String,
    },
    /// The backend does not accept the credential, or not for this request.
    #[error("the key is not accepted for this request ({code}): {detail}")]
    Unauthorized {
        /// The stable code.
        code: Cow<'static, str>,
        /// Why.
        detail: String,
    },
    /// The backend did nothing; the same request may work later.
    #[error("the backend is unavailable")]
    Unavailable {
        /// When to ask again, if the backend said so.
        retry_after: Option<Duration>,
        /// What happened.
        source: Box<dyn Error + Send + Sync>,
    },
    /// Whether the backend carried out the request is unknown. A repeat is safe.
    #[error("the outcome of the request is unknown")]
    Unknown {
        /// When to ask again, if the backend said so.
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

/// Logs a lasting failure once, and not at every retry.
#[derive(Default)]
pub(crate) struct LogOnce {
    /// Whether the failure that was logged last was a refused key; none after a success.
    logged_unauthorized: Option<bool>,
}

impl LogOnce {
    /// Logs a new kind of failure. A key that is not accepted needs an operator.
    pub(crate) fn failed(&mut self, what: &str, cause: &BackendError) {
        let unauthorized = matches!(cause, BackendError::Unauthorized { .. });
        if self.logged_unauthorized.replace(unauthorized) == Some(unauthorized) {
            return;
        }
        let error: &dyn Error = cause;
        if unauthorized {
            error!(error, "{what}: give this worker another key; it tries again every few seconds");
        } else {
            warn!(error, "{what}; trying again");
        }
    }

    /// Notes a success; says whether the call before it failed.
    pub(crate) fn recovered(&mut self) -> bool {
        self.logged_unauthorized.take().is_some()
    }
}

/// Growing waits, for a caller that retries a failed call to the backend.
#[derive(Default)]
pub(crate) struct Backoff {
    failures: u32,
}

impl Backoff {
    const WAITS: engine::Backoff =
        engine::Backoff::doubling(Duration::from_millis(50), Duration::from_secs(5));
    /// The wait after a refused key: an operator does not change a key every second.
    const UNAUTHORIZED: Duration = Duration::from_secs(5);
    /// The longest `retry_after` that is obeyed.
    const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

    /// How long to wait this time: never shorter than the backend asks for, with jitter that
    /// separates callers that got the same answer.
    pub(crate) fn after(&mut self, error: &BackendError) -> Duration {
        self.failures = self.failures.saturating_add(1);
        let wait_min = match error {
            BackendError::Unauthorized { .. } => Self::UNAUTHORIZED,
            BackendError::Refused { .. } => Duration::ZERO,
            BackendError::Unavailable { retry_after, .. }
            | BackendError::Unknown { retry_after, .. } => {
                retry_after.unwrap_or_default().min(Self::RETRY_AFTER_MAX)
            }
        };
        wait_min + Self::WAITS.spread(self.failures, system::random())
    }
}
