//! Which jobs a listing shows: a tree of comparisons over the contract's filter fields.
//!
//! `wire` reads the text form (`$filter`); stores turn the tree into a query. Its meaning is
//! [`Filter::matches`], and every store must agree with it.

use crate::{
    job::{Job, Status},
    job_id::JobId,
    text::{CorrelationId, ErrorCode, JobType, SubjectId, Tenant},
    time::Timestamp,
};
use std::cmp::Ordering;

/// A condition on a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    /// Every job.
    Everything,
    /// One field compared with one value.
    Compare(Comparison, Field),
    /// All of these hold.
    And(Vec<Filter>),
    /// At least one of these holds.
    Or(Vec<Filter>),
    /// This does not hold.
    Not(Box<Filter>),
}

/// A field of the contract, with the value it is compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the variants are the contract's own words")]
pub enum Field {
    Status(Status),
    JobType(JobType),
    SubjectId(SubjectId),
    CorrelationId(CorrelationId),
    CreatedAt(Timestamp),
    CompletedAt(Timestamp),
    ErrorCode(ErrorCode),
    ParentId(JobId),
    Tenant(Tenant),
}

/// How a field compares to its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the variants are OData's own words")]
pub enum Comparison {
    Eq,
    Ne,
    Gt,
    Ge,
    Lt,
    Le,
}

impl Filter {
    /// A field equal to its value.
    pub fn eq(field: Field) -> Self {
        Filter::Compare(Comparison::Eq, field)
    }

    /// Whether the filter includes `job`.
    pub fn matches(&self, job: &Job) -> bool {
        match self {
            Filter::Everything => true,
            Filter::Compare(comparison, field) => comparison.holds(field.of(job)),
            Filter::And(all) => all.iter().all(|filter| filter.matches(job)),
            Filter::Or(any) => any.iter().any(|filter| filter.matches(job)),
            Filter::Not(filter) => !filter.matches(job),
        }
    }
}

impl Field {
    /// How the job's value compares to the filter's; `None` where the job has no value.
    fn of(&self, job: &Job) -> Option<Ordering> {
        let envelope = &job.envelope;
        match self {
            Field::Status(status) => Some(job.status().as_str().cmp(status.as_str())),
            Field::JobType(job_type) => Some(envelope.job_type.cmp(job_type)),
            Field::SubjectId(subject) => Some(envelope.subject.as_ref()?.cmp(subject)),
            Field::CorrelationId(correlation) => Some(envelope.correlation.cmp(correlation)),
            Field::CreatedAt(at) => Some(envelope.created_at.cmp(at)),
            Field::CompletedAt(at) => Some(job.ended_at()?.cmp(at)),
            Field::ErrorCode(code) => Some(job.life.last_failure.as_ref()?.code.cmp(code)),
            Field::ParentId(parent) => Some(envelope.parent?.cmp(parent)),
            Field::Tenant(tenant) => Some(envelope.tenant.cmp(tenant)),
        }
    }
}

impl Comparison {
    /// A value that is absent differs from every value and is neither less nor greater.
    fn holds(self, ordering: Option<Ordering>) -> bool {
        match (self, ordering) {
            (Comparison::Ne, None) => true,
            (_, None) => false,
            (Comparison::Eq, Some(ordering)) => ordering.is_eq(),
            (Comparison::Ne, Some(ordering)) => ordering.is_ne(),
            (Comparison::Gt, Some(ordering)) => ordering.is_gt(),
            (Comparison::Ge, Some(ordering)) => ordering.is_ge(),
            (Comparison::Lt, Some(ordering)) => ordering.is_lt(),
            (Comparison::Le, Some(ordering)) => ordering.is_le(),
        }
    }
}
