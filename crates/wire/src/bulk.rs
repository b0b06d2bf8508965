//! Bulk actions: one request for all jobs that a filter means.

use crate::filter::{FilterError, some_jobs};
use engine::Filter;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Which jobs are meant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
pub struct BulkRequest {
    /// A filter over jobs; left out or blank, it is refused.
    #[schema(required)]
    pub filter: String,
}

/// What a bulk action found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BulkAnswer {
    /// So many jobs are meant.
    pub matched: u64,
    /// Under which the action can be followed; left out where it is done already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation_id: Option<String>,
}

impl BulkRequest {
    /// The filter, once it is read.
    pub fn check(&self) -> Result<Filter, FilterError> {
        some_jobs(&self.filter)
    }
}
