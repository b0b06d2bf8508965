//! The poison queue: jobs that wait for an operator, and what the operator decides.

use crate::{list::at_most_or_null, status::JobStatus};
use engine::{Checked, FieldProblem, ITEMS_MAX, JobId, check_count};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use utoipa::ToSchema;

/// Selects poisoned jobs to redrive or discard: by their ids or by a filter.
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

/// The poisoned jobs that a request is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PoisonSelection<'a> {
    /// These jobs, each once.
    Jobs(BTreeSet<JobId>),
    /// All poisoned jobs that this filter matches. [`some_jobs`](crate::filter::some_jobs) has yet
    /// to parse it. The filter itself does not restrict the jobs to poisoned ones.
    Matching(&'a str),
}

/// A page of the poison queue.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoisonAnswer {
    /// The jobs on the page.
    pub items: Vec<JobStatus>,
    /// Where the next page begins; none after the last.
    pub next_cursor: Option<String>,
    /// How many jobs wait under each error code, on all pages together.
    pub counts: BTreeMap<String, u64>,
}

impl PoisonRequest {
    /// Checks that the request selects jobs in exactly one of the two ways.
    pub fn check(&self) -> Checked<PoisonSelection<'_>> {
        let wrong = |detail| Err(FieldProblem::new(IDS, detail));
        match (&self.job_ids, &self.filter) {
            (Some(ids), None) => checked_ids(ids).map(PoisonSelection::Jobs),
            (None, Some(filter)) => Ok(PoisonSelection::Matching(filter)),
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
