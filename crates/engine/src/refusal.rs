//! A refusal by the contract, with a stable code.

use crate::{
    count::counted, field::FieldProblem, job::Status, job_id::JobId, tenant_limits::TenantLimit,
    text::JobType,
};

/// Why a command is refused. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each is spelled out by its sentence")]
pub enum Refusal {
    #[error("{}", sentences(.0))]
    Invalid(Vec<FieldProblem>),
    #[error("payload: has {bytes} bytes, and at most {bytes_max} are taken")]
    PayloadTooLarge { bytes: usize, bytes_max: usize },
    #[error("idempotencyKey: belongs to job {holder}, which is a different job")]
    KeyReused { holder: JobId },
    /// The same refusal for a caller who may not see that job.
    #[error("idempotencyKey: belongs to a different job")]
    KeyReusedUnseen,
    #[error("the queue of {job_type} is full: {}", counted(*max_queued, "job waits", "jobs wait"))]
    QueueFull { job_type: JobType, max_queued: u64 },
    #[error("jobType: {job_type} is not declared, and only declared types are taken")]
    UnknownJobType { job_type: JobType },
    #[error("the tenant has {max} {}, and {} allows no more", limit.noun(), limit.setting())]
    TenantLimit { limit: TenantLimit, max: u64 },
    /// The payload does not match the schema of its type.
    #[error("{}", sentences(.0))]
    SchemaMismatch(Vec<FieldProblem>),
    /// Also where the job belongs to another tenant.
    #[error("there is no such job")]
    JobNotFound,
    /// An API key or a signing key. Also where it belongs to another tenant.
    #[error("there is no such key")]
    KeyNotFound,
    /// Also a key that is revoked.
    #[error("the key has ended, so that there is nothing to rotate; make a new one")]
    KeyEnded,
    #[error("the token is not the job's current lease")]
    LeaseLost,
    #[error("it has already ended: {status} stands")]
    AlreadyEnded { status: Status },
    #[error("the job has not ended: it is {status}")]
    NotEnded { status: Status },
    #[error("only Poisoned, Failed and Cancelled jobs are redriven: it is {status}")]
    NotRedrivable { status: Status },
    #[error("the job is not Poisoned: it is {status}")]
    NotPoisoned { status: Status },
    #[error("the step was never begun")]
    StepNotBegun,
    #[error("the job has {steps_max} steps already")]
    StepLimit { steps_max: u64 },
    /// Only a claim and the sweeper get this.
    #[error("the job is not Queued: it is {status}")]
    NotQueued { status: Status },
    /// Only a claim and the sweeper get this.
    #[error("its time has not come, or is over")]
    NotDue,
    /// A record has another version than the caller knows; 0 where there is no such record.
    #[error("{}", version_changed(*version))]
    VersionChanged { version: u64 },
    /// One item of an all-or-nothing list; the index counts from 0.
    #[error("item {index}: {refusal}")]
    Item { index: usize, refusal: Box<Refusal> },
}

impl Refusal {
    /// This refusal as that of item `index` of a list of `count`. A list of one needs no index.
    pub fn of_item(self, index: usize, count: usize) -> Self {
        if count == 1 { self } else { Refusal::Item { index, refusal: Box::new(self) } }
    }

    /// The job that holds a reused key, where that is the reason.
    pub fn key_holder(&self) -> Option<JobId> {
        if let Refusal::Item { refusal, .. } = self {
            return refusal.key_holder();
        }
        if let Refusal::KeyReused { holder } = self { Some(*holder) } else { None }
    }

    /// This refusal without the name of the job that holds a reused key.
    pub fn without_key_holder(self) -> Self {
        if let Refusal::Item { index, refusal } = self {
            return Refusal::Item { index, refusal: Box::new(refusal.without_key_holder()) };
        }
        if self.key_holder().is_some() { Refusal::KeyReusedUnseen } else { self }
    }

    /// The stable code, which the catalogue explains.
    pub fn code(&self) -> &'static str {
        match self {
            Refusal::Invalid(_) => "INVALID_FIELD",
            Refusal::PayloadTooLarge { .. } => "PAYLOAD_TOO_LARGE",
            Refusal::KeyReused { .. } | Refusal::KeyReusedUnseen => "IDEMPOTENCY_KEY_REUSED",
            Refusal::QueueFull { .. } => "QUEUE_FULL",
            Refusal::UnknownJobType { .. } => "UNKNOWN_JOB_TYPE",
            Refusal::TenantLimit { .. } => "TENANT_LIMIT",
            Refusal::SchemaMismatch(_) => "SCHEMA_MISMATCH",
            Refusal::JobNotFound => "JOB_NOT_FOUND",
            Refusal::KeyNotFound => "KEY_NOT_FOUND",
            Refusal::KeyEnded => "KEY_ENDED",
            Refusal::LeaseLost => "LEASE_LOST",
            Refusal::AlreadyEnded { .. } => "ALREADY_ENDED",
            Refusal::NotEnded { .. } => "NOT_ENDED",
            Refusal::NotRedrivable { .. } => "NOT_REDRIVABLE",
            Refusal::NotPoisoned { .. } => "NOT_POISONED",
            Refusal::StepNotBegun => "STEP_NOT_BEGUN",
            Refusal::StepLimit { .. } => "STEP_LIMIT",
            Refusal::NotQueued { .. } => "NOT_QUEUED",
            Refusal::NotDue => "NOT_DUE",
            Refusal::VersionChanged { .. } => "VERSION_CHANGED",
            Refusal::Item { refusal, .. } => refusal.code(),
        }
    }

    /// The fields that are wrong, where that is the reason.
    pub fn problems(&self) -> &[FieldProblem] {
        if let Refusal::Item { refusal, .. } = self {
            return refusal.problems();
        }
        if let Refusal::Invalid(problems) | Refusal::SchemaMismatch(problems) = self {
            return problems;
        }
        &[]
    }
}

impl From<FieldProblem> for Refusal {
    fn from(problem: FieldProblem) -> Self {
        Refusal::Invalid(vec![problem])
    }
}

fn sentences(problems: &[FieldProblem]) -> String {
    let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
    problems.join("; ")
}

fn version_changed(version: u64) -> String {
    match version {
        0 => "there is no such record any more".into(),
        _ => format!("the record was changed meanwhile and has version {version} now"),
    }
}
