//! Explain why a job is not running.

use crate::{Error, Platform};
use engine::{JobId, Reason, Refusal, Scope, Status, explain};

/// A job's status and what keeps the job from running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The status of the job.
    pub status: Status,
    /// The reasons, the most persistent one first.
    pub reasons: Vec<Reason>,
}

impl Platform {
    /// Everything that keeps a job from running now.
    pub async fn explain(&self, scope: &Scope, id: JobId) -> Result<Explanation, Error> {
        let (job, facts) =
            self.store.explain_facts(scope, id).await?.ok_or(Refusal::JobNotFound)?;
        let mut reasons = explain(&job, &facts);
        if *scope != Scope::All {
            reasons = reasons.into_iter().map(Reason::for_one_tenant).collect();
        }
        Ok(Explanation { status: job.status(), reasons })
    }
}
