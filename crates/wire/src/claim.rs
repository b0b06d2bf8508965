//! Claim: a worker asks for jobs, and gets each with a lease.

use crate::{
    extended::{Extended, ExtensionFields},
    job::FullJob,
    list::at_most,
    secret::Secret,
    time::Rfc3339,
};
use engine::{
    CLAIM_MAX, CLAIM_TYPES_MAX, Checked, ClaimId, FieldProblem, Findings, Host, Job, JobType,
    JsonText, Lease, Refusal, WorkerId, check_count, check_lease, check_range,
};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use utoipa::ToSchema;

/// A worker asks for jobs.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
#[expect(missing_docs, reason = "the fields are the contract's own")]
pub struct ClaimRequest {
    #[schema(required)]
    pub worker_id: String,
    #[schema(required)]
    pub claim_id: String,
    /// The machine it runs on, for the list of workers.
    pub host: Option<String>,
    #[serde(deserialize_with = "at_most::<_, _, CLAIM_TYPES_MAX>")]
    #[schema(required)]
    pub job_types: Vec<String>,
    pub max: Option<i64>,
    pub wait_seconds: Option<i64>,
    pub lease_seconds: Option<i64>,
}

/// A claim that passed its checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedClaim {
    /// What the worker asks for.
    pub claim_request: engine::ClaimRequest,
    /// How long it waits for the first job; zero where it does not say.
    pub wait: Duration,
}

/// The jobs that a worker gets; empty after the wait.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ClaimAnswer {
    /// The jobs that the worker now holds.
    pub jobs: Vec<ClaimedJob>,
}

/// A whole job with its payload and its lease.
pub type ClaimedJob = Extended<FullJob, WithLease>;

/// The lease of a claimed job.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = LeaseOf)]
pub struct WithLease {
    /// The right to run the job.
    pub lease: JobLease,
}

/// The right to run a job for some time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Lease)]
pub struct JobLease {
    /// The token that the worker shows with every report.
    pub token: Secret,
    /// When the lease runs out without a heartbeat.
    pub expires_at: Rfc3339,
    /// How far one heartbeat extends the lease. With it, a worker need not compare its clock with
    /// the server's.
    pub lease_seconds: f64,
    /// How long the attempt may take; no heartbeat extends the lease beyond it.
    pub timeout_seconds: f64,
}

impl ClaimRequest {
    /// Checks every field and names all that are wrong.
    pub fn check(&self) -> Result<CheckedClaim, Refusal> {
        let mut findings = Findings::default();
        let worker = findings.keep(WorkerId::parse(&self.worker_id));
        let claim = findings.keep(ClaimId::parse(&self.claim_id));
        let host = findings.keep_optional(self.host.as_deref().map(Host::parse));
        let job_types = findings.keep(self.checked_types());
        let max = findings.keep(check_range("max", self.max.unwrap_or(1), 1..=CLAIM_MAX as u32));
        let wait =
            findings.keep(check_range("waitSeconds", self.wait_seconds.unwrap_or(0), 0..=60));
        let lease = findings.keep_optional(self.lease_seconds.map(check_lease));

        let (Some(worker), Some(claim), Some(job_types), Some(max), Some(wait), true) =
            (worker, claim, job_types, max, wait, findings.is_empty())
        else {
            return Err(findings.refusal());
        };
        let claim_request =
            engine::ClaimRequest { worker, host, claim, job_types, max: max as usize, lease };
        Ok(CheckedClaim { claim_request, wait: Duration::from_secs(wait.into()) })
    }

    fn checked_types(&self) -> Checked<Vec<JobType>> {
        const FIELD: &str = "jobTypes";
        check_count(FIELD, self.job_types.len(), 1..=CLAIM_TYPES_MAX)?;
        let numbered = self.job_types.iter().enumerate();
        let checked = numbered.map(|(index, text)| {
            JobType::parse(text).map_err(|problem| {
                FieldProblem::new(FIELD, format!("entry {index} {}", problem.detail))
            })
        });
        checked.collect()
    }
}

impl ExtensionFields for WithLease {
    const SCHEMA_NAME: &'static str = "ClaimedJob";
}

impl ClaimedJob {
    /// The job as the worker that claimed it gets it.
    pub fn new(job: &Job, lease: &Lease, payload: &JsonText) -> Self {
        let base = FullJob::new(job, Some(payload));
        Extended { base, extension: WithLease { lease: JobLease::from(lease) } }
    }
}

impl From<&Lease> for JobLease {
    fn from(lease: &Lease) -> Self {
        let token = Secret::new(lease.token.to_string());
        JobLease {
            token,
            expires_at: lease.expires_at.into(),
            lease_seconds: lease.length.as_secs_f64(),
            timeout_seconds: lease.deadline.since(lease.started_at).as_secs_f64(),
        }
    }
}
