//! Bulk actions: one request for all jobs that a filter matches.

use crate::filter::{FilterError, some_jobs};
use engine::{Filter, Scope};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Selects the jobs of a bulk action.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
pub struct BulkRequest {
    /// A filter over jobs. It is required and must not be blank.
    #[schema(required)]
    pub filter: String,
}

/// The answer to a bulk action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BulkAnswer {
    /// How many jobs the filter matches.
    pub matched: u64,
    /// The id by which the action can be followed; left out where it is done already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation_id: Option<String>,
}

impl BulkRequest {
    /// Parses the filter of a caller for `scope`.
    pub fn check(&self, scope: &Scope) -> Result<Filter, FilterError> {
        some_jobs(&self.filter, scope)
    }
}
