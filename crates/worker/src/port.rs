//! The other side, as a runner needs it: whoever has the jobs, in this process or behind an address.

use crate::brief::Brief;
use engine::{
    Ending, JobDraft, JobId, JobType, JsonText, LeaseToken, PolicyDraft, ProgressReport,
    ReleaseReason, StepAnswer, StepName, Tenant, Wish, WorkerId,
};
use std::{borrow::Cow, error::Error, pin::Pin, time::Duration};
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

/// Everything that a runner and its handlers ask of the other side.
pub(crate) trait Port: Send + Sync {
    /// Waits for jobs until there are some, the other side has nothing for long, or `closing`: then it waits no
    /// longer, and gives only what is on its way.
    fn stand<'a>(&'a self, wish: Wish, closing: &'a CancellationToken) -> Asked<'a, Vec<Handed>>;

    /// Claims what there is now.
    fn claim(&self, wish: Wish) -> Asked<'_, Vec<Handed>>;

    /// Keeps leases; one answer for each, in their order.
    fn heartbeat<'a>(&'a self, worker: &'a WorkerId, beats: Vec<Beat>) -> Asked<'a, Vec<Sign>>;

    /// Says how attempts ended; one verdict for each, in their order.
    fn settle(&self, reports: Vec<Report>) -> Asked<'_, Vec<Verdict>>;

    /// Gives jobs back; one verdict for each, in their order.
    fn release(&self, releases: Vec<Release>) -> Asked<'_, Vec<Verdict>>;

    /// Signs a worker off.
    fn leave<'a>(&'a self, worker: &'a WorkerId) -> Asked<'a, ()>;

    /// Marks that a step begins, or tells what is known of it.
    fn begin_step(&self, id: JobId, token: LeaseToken, name: StepName) -> Asked<'_, StepAnswer>;

    /// Remembers what a step came to.
    fn finish_step(
        &self,
        id: JobId,
        token: LeaseToken,
        name: StepName,
        result: JsonText,
    ) -> Asked<'_, StepAnswer>;

    /// Hands over a job of `tenant`.
    fn submit<'a>(&'a self, tenant: &'a Tenant, draft: JobDraft) -> Asked<'a, JobId>;

    /// Sets how jobs of a type are treated.
    fn set_policy<'a>(&'a self, job_type: JobType, policy: &'a PolicyDraft) -> Asked<'a, ()>;

    /// Whether leases run out on the other side while it cannot be reached. Where it and we stand still
    /// together, they do not.
    fn leases_lapse_unheard(&self) -> bool;
}

/// An answer that is awaited.
pub(crate) type Asked<'a, T> = Pin<Box<dyn Future<Output = Result<T, AskError>> + Send + 'a>>;

/// A job that was claimed.
pub(crate) struct Handed {
    pub(crate) brief: Brief,
    pub(crate) payload: JsonText,
}

/// A heartbeat for one lease.
#[derive(Clone)]
pub(crate) struct Beat {
    pub(crate) id: JobId,
    pub(crate) token: LeaseToken,
    pub(crate) progress: Option<ProgressReport>,
}

/// How one attempt ended.
#[derive(Clone)]
pub(crate) struct Report {
    pub(crate) id: JobId,
    pub(crate) token: LeaseToken,
    pub(crate) ending: Ending,
}

/// A job that is given back.
#[derive(Clone)]
pub(crate) struct Release {
    pub(crate) id: JobId,
    pub(crate) token: LeaseToken,
    pub(crate) reason: ReleaseReason,
    pub(crate) delay: Duration,
}

/// How a lease stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sign {
    Kept,
    CancelRequested,
    Lost,
}

/// What the end of one attempt came to. An error that is no refusal is that this job is damaged; what is wrong
/// with the whole other side fails the whole call.
pub(crate) type Verdict = Result<(), AskError>;

/// Why the other side did not do what a runner asked of it.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
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

impl AskError {
    /// Whether it is about who asks, and not about what.
    pub(crate) fn is_unwelcome(&self) -> bool {
        matches!(self, AskError::Unwelcome { .. })
    }

    /// How long the other side asks to be left alone.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            AskError::Away { retry_after, .. } | AskError::Unknown { retry_after, .. } => {
                *retry_after
            }
            AskError::Refused { .. } | AskError::Unwelcome { .. } => None,
        }
    }
}

/// What was complained about last: one trouble is said once, and not whenever it is met.
#[derive(Default)]
pub(crate) struct Complaints {
    unwelcome: Option<bool>,
}

impl Complaints {
    /// Says what does not work, if it is news. A key that is not taken needs somebody to do something.
    pub(crate) fn say(&mut self, what: &str, cause: &AskError) {
        let unwelcome = cause.is_unwelcome();
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

    /// It works; says whether it did not.
    pub(crate) fn are_over(&mut self) -> bool {
        self.unwelcome.take().is_some()
    }
}
