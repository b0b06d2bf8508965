//! The poison queue: jobs that wait for a person, and what the person decides.

use crate::{
    filter::{FilterError, some_jobs},
    list::at_most_or_null,
    problem::Problem,
    status::StatusShape,
};
use engine::{
    Checked, CorrelationId, FieldProblem, Filter, ITEMS_MAX, JobId, Refusal, check_count,
};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};
use utoipa::ToSchema;

/// Which poisoned jobs are redriven or discarded: by their ids or by a filter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
#[expect(missing_docs, reason = "the fields are the contract's own")]
pub struct PoisonRequest {
    #[serde(
        deserialize_with = "at_most_or_null::<_, _, ITEMS_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    pub job_ids: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
}

/// A request about poisoned jobs that passed its checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PoisonOrder {
    /// These jobs, each once.
    Jobs(BTreeSet<JobId>),
    /// All poisoned jobs that it shows; it does not say itself that they are poisoned.
    Matching(Filter),
}

/// Why a request is no order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OrderError {
    /// Its fields are wrong.
    Refused(Refusal),
    /// Its filter cannot be followed.
    Filter(FilterError),
}

/// A page of the poison queue.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoisonAnswer {
    /// The jobs on it.
    pub items: Vec<StatusShape>,
    /// Where the next page begins; none after the last.
    pub next_cursor: Option<String>,
    /// How many jobs wait under each error code, on all pages together.
    pub counts: BTreeMap<String, u64>,
}

impl PoisonRequest {
    /// Checks that it names jobs in one of the two ways, and in no other.
    pub fn check(&self) -> Result<PoisonOrder, OrderError> {
        match (&self.job_ids, &self.filter) {
            (Some(ids), None) => Ok(PoisonOrder::Jobs(checked_ids(ids)?)),
            (None, Some(filter)) => Ok(PoisonOrder::Matching(some_jobs(filter)?)),
            (None, None) => Err(either("must be given where filter is not").into()),
            (Some(_), Some(_)) => Err(either("must not be given together with filter").into()),
        }
    }
}

const IDS: &str = "jobIds";

fn either(detail: &str) -> FieldProblem {
    FieldProblem::new(IDS, detail)
}

fn checked_ids(ids: &[String]) -> Checked<BTreeSet<JobId>> {
    check_count(IDS, ids.len(), 1..=ITEMS_MAX)?;
    let checked = ids.iter().enumerate().map(|(index, text)| {
        JobId::parse(text)
            .map_err(|problem| FieldProblem::new(IDS, format!("entry {index} {}", problem.detail)))
    });
    checked.collect()
}

impl OrderError {
    /// The answer to whoever sent it.
    pub fn problem(&self, correlation: &CorrelationId) -> Problem {
        match self {
            OrderError::Refused(refusal) => Problem::refused(refusal, correlation),
            OrderError::Filter(error) => Problem::filter(error, correlation),
        }
    }
}

impl From<FieldProblem> for OrderError {
    fn from(problem: FieldProblem) -> Self {
        OrderError::Refused(problem.into())
    }
}

impl From<FilterError> for OrderError {
    fn from(error: FilterError) -> Self {
        OrderError::Filter(error)
    }
}

impl std::error::Error for OrderError {}

impl fmt::Display for OrderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OrderError::Refused(refusal) => refusal.fmt(f),
            OrderError::Filter(error) => write!(f, "the filter {error}"),
        }
    }
}
