//! A lawful no: the contract speaking, with a stable code.

use crate::{
    field::FieldProblem, job::Status, job_id::JobId, tenant_limits::TenantLimit, text::JobType,
};
use std::fmt;

/// Why a command was not carried out. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// One or more fields cannot be accepted.
    Invalid(Vec<FieldProblem>),
    /// The payload is larger than this installation takes.
    PayloadTooLarge {
        /// What came.
        bytes: usize,
        /// What would be taken.
        bytes_max: usize,
    },
    /// The idempotency key belongs to another job.
    KeyReused {
        /// The job that has it.
        holder: JobId,
    },
    /// The same, told to a caller who may not see that job.
    KeyReusedUnseen,
    /// The type takes no more jobs for now.
    QueueFull {
        /// Which type.
        job_type: JobType,
        /// How many may wait.
        max_queued: u64,
    },
    /// This installation takes only types that somebody declared.
    UnknownJobType {
        /// Which it does not know.
        job_type: JobType,
    },
    /// The tenant has as many of these as it may.
    TenantLimit {
        /// Of what.
        limit: TenantLimit,
        /// How many it may have.
        max: u64,
    },
    /// The payload is not what the schema of its type wants.
    SchemaMismatch(Vec<FieldProblem>),
    /// There is no such job, or it is not the caller's.
    JobNotFound,
    /// There is no such API key or signing key, or it is not the caller's.
    KeyNotFound,
    /// The token is not the job's current one.
    LeaseLost,
    /// This ending cannot be any more, because another stands.
    AlreadyEnded {
        /// What stands.
        status: Status,
    },
    /// Only an ended job can be treated so.
    NotEnded {
        /// What it is instead.
        status: Status,
    },
    /// A completed job has nothing to be redriven for.
    NotRedrivable {
        /// What it is instead.
        status: Status,
    },
    /// Only a poisoned job can be discarded.
    NotPoisoned {
        /// What it is instead.
        status: Status,
    },
    /// A step is finished only after it was begun.
    StepNotBegun,
    /// The job has as many steps as it may.
    StepLimit {
        /// How many that is.
        steps_max: u64,
    },
    /// Nobody but a claim asks this: the job is not waiting.
    NotQueued {
        /// What it is instead.
        status: Status,
    },
    /// Nobody but a claim or a sweep asks this: its time has not come, or is over.
    NotDue,
    /// A record has another version than the caller knows.
    VersionChanged {
        /// Which it has; 0 where there is no such record.
        version: u64,
    },
    /// One of a list that is taken whole or not at all.
    Item {
        /// Which, counted from 0.
        index: usize,
        /// Why.
        refusal: Box<Refusal>,
    },
}

impl Refusal {
    /// This refusal as that of item `index` of a list of `count`; a list of one has no items to name.
    pub fn of_item(self, index: usize, count: usize) -> Self {
        if count == 1 { self } else { Refusal::Item { index, refusal: Box::new(self) } }
    }

    /// The job that holds the key which was reused, where that is the reason.
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

    /// The stable code that the catalogue explains.
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
        match self {
            Refusal::Invalid(problems) | Refusal::SchemaMismatch(problems) => problems,
            Refusal::Item { refusal, .. } => refusal.problems(),
            Refusal::PayloadTooLarge { .. }
            | Refusal::KeyReused { .. }
            | Refusal::KeyReusedUnseen
            | Refusal::QueueFull { .. }
            | Refusal::UnknownJobType { .. }
            | Refusal::TenantLimit { .. }
            | Refusal::JobNotFound
            | Refusal::KeyNotFound
            | Refusal::LeaseLost
            | Refusal::AlreadyEnded { .. }
            | Refusal::NotEnded { .. }
            | Refusal::NotRedrivable { .. }
            | Refusal::NotPoisoned { .. }
            | Refusal::StepNotBegun
            | Refusal::StepLimit { .. }
            | Refusal::NotQueued { .. }
            | Refusal::NotDue
            | Refusal::VersionChanged { .. } => &[],
        }
    }
}

impl From<FieldProblem> for Refusal {
    fn from(problem: FieldProblem) -> Self {
        Refusal::Invalid(vec![problem])
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Invalid(problems) | Refusal::SchemaMismatch(problems) => {
                let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
                f.write_str(&problems.join("; "))
            }
            Refusal::PayloadTooLarge { bytes, bytes_max } => {
                write!(f, "payload: has {bytes} bytes, and at most {bytes_max} are taken")
            }
            Refusal::KeyReused { holder } => {
                write!(f, "idempotencyKey: belongs to job {holder}, which is a different job")
            }
            Refusal::KeyReusedUnseen => f.write_str("idempotencyKey: belongs to a different job"),
            Refusal::QueueFull { job_type, max_queued } => {
                write!(f, "the queue of {job_type} is full: {max_queued} jobs wait")
            }
            Refusal::UnknownJobType { job_type } => {
                write!(f, "jobType: {job_type} is not declared, and only declared types are taken")
            }
            Refusal::TenantLimit { limit, max } => {
                let (noun, setting) = (limit.noun(), limit.setting());
                write!(f, "the tenant has {max} {noun}, and {setting} allows no more")
            }
            Refusal::JobNotFound => f.write_str("there is no such job"),
            Refusal::KeyNotFound => f.write_str("there is no such key"),
            Refusal::LeaseLost => f.write_str("the token is not the job's current lease"),
            Refusal::AlreadyEnded { status } => write!(f, "it has already ended: {status} stands"),
            Refusal::NotEnded { status } => write!(f, "the job has not ended: it is {status}"),
            Refusal::NotRedrivable { status } => {
                write!(f, "only Poisoned, Failed and Cancelled jobs are redriven: it is {status}")
            }
            Refusal::NotPoisoned { status } => write!(f, "the job is not Poisoned: it is {status}"),
            Refusal::StepNotBegun => f.write_str("the step was never begun"),
            Refusal::StepLimit { steps_max } => write!(f, "the job has {steps_max} steps already"),
            Refusal::NotQueued { status } => write!(f, "the job is not Queued: it is {status}"),
            Refusal::NotDue => f.write_str("its time has not come, or is over"),
            Refusal::VersionChanged { version: 0 } => {
                f.write_str("there is no such record any more")
            }
            Refusal::VersionChanged { version } => {
                write!(f, "the record was changed meanwhile and has version {version} now")
            }
            Refusal::Item { index, refusal } => write!(f, "item {index}: {refusal}"),
        }
    }
}

impl std::error::Error for Refusal {}
