//! The job and the lease with which every report of a worker begins.

use crate::secret::Secret;
use engine::{Findings, JobId, LeaseToken};

/// Reads which job a report is about, and under which lease.
pub(crate) fn lease_reference(
    job_id: &str,
    token: &Secret,
    findings: &mut Findings,
) -> Option<(JobId, LeaseToken)> {
    let job_id = findings.keep(JobId::parse(job_id));
    let token = findings.keep(LeaseToken::parse(token.expose()));
    job_id.zip(token)
}
