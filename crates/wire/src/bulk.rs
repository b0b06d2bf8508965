//! Bulk actions: one request for many jobs, named by their ids or by a filter.

use crate::list::at_most_or_null;
use engine::{Checked, FieldProblem, ITEMS_MAX, JobId, check_count};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use utoipa::ToSchema;

/// Selects the jobs of a bulk action: by their ids or by a filter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
#[expect(missing_docs, reason = "the fields are the contract's own")]
pub struct BulkRequest {
    #[serde(
        deserialize_with = "at_most_or_null::<_, _, ITEMS_MAX>",
        skip_serializing_if = "Option::is_none"
    )]
    pub job_ids: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// Whether to count the jobs only, and to change nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<bool>,
}

/// The jobs that a request is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BulkSelection<'a> {
    /// These jobs, each once.
    Jobs(BTreeSet<JobId>),
    /// All jobs that this filter matches. [`some_jobs`](crate::filter::some_jobs) has yet to parse
    /// it. The filter itself does not restrict the jobs to those that the action may change.
    Matching(&'a str),
}

/// The answer to a bulk action.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BulkAnswer {
    /// How many jobs the action changed; of a dry run, how many it would change.
    pub matched: u64,
    /// How many selected jobs it passed over: what it does is not lawful in their state, or they
    /// are named and not to be seen with this credential. A filter never selects jobs in another
    /// state, or jobs that are not to be seen.
    #[serde(default)]
    pub passed_over: u64,
    /// The id of the action in the audit log; a dry run has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation_id: Option<String>,
    /// Where the next page of jobs begins. Only a request with `top` has one, until its last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

impl BulkRequest {
    /// All jobs that match this filter.
    pub fn matching(filter: impl Into<String>) -> Self {
        BulkRequest { filter: Some(filter.into()), ..BulkRequest::default() }
    }

    /// The same request, which only counts.
    #[must_use]
    pub fn counted(&self) -> Self {
        BulkRequest { dry_run: Some(true), ..self.clone() }
    }

    /// Checks that the request selects jobs in exactly one of the two ways.
    pub fn check(&self) -> Checked<BulkSelection<'_>> {
        let wrong = |detail| Err(FieldProblem::new(IDS, detail));
        match (&self.job_ids, &self.filter) {
            (Some(ids), None) => checked_ids(ids).map(BulkSelection::Jobs),
            (None, Some(filter)) => Ok(BulkSelection::Matching(filter)),
            (None, None) => wrong("must be given where filter is not"),
            (Some(_), Some(_)) => wrong("must not be given together with filter"),
        }
    }
}

const IDS: &str = "jobIds";

fn checked_ids(ids: &[String]) -> Checked<BTreeSet<JobId>> {
    check_count(IDS, ids.len(), 1..=ITEMS_MAX)?;
    let checked = ids.iter().enumerate().map(|(index, text)| {
        JobId::parse(text)
            .map_err(|problem| FieldProblem::new(IDS, format!("entry {index} {}", problem.detail)))
    });
    checked.collect()
}
