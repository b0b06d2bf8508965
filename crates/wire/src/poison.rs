//! The poison queue: jobs that wait for an operator.

use crate::status::JobStatus;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

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
