//! What a worker's request comes to: a command for one job.

use crate::secret::Secret;
use engine::{Command, Findings, JobId, LeaseToken};

/// A checked command, and the job it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobCommand {
    /// Which job.
    pub job_id: JobId,
    /// What is to be done to it.
    pub command: Command,
}

/// Reads what every report of a worker begins with: which job, under which lease.
pub(crate) fn held(
    job_id: &str,
    token: &Secret,
    findings: &mut Findings,
) -> Option<(JobId, LeaseToken)> {
    let job_id = findings.keep(JobId::parse(job_id));
    let token = findings.keep(LeaseToken::parse(token.expose()));
    job_id.zip(token)
}
