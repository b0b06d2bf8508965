//! Redrive: an ended job gets another life.

use crate::json::Json;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How the new life differs; an empty body changes nothing.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
#[expect(missing_docs, reason = "the fields are the contract's own")]
pub struct RedriveRequest {
    pub reset_steps: Option<bool>,
    pub max_attempts: Option<i64>,
    /// A corrected payload. Without it, and where it is null, the payload stays as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<Json>,
}
