//! Cancel: one job, or a job and all its descendants.

use crate::{
    extended::{Extended, ExtensionFields},
    status::JobStatus,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What is cancelled with the job; an empty body means the job alone.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
pub struct CancelRequest {
    /// Whether its live descendants are cancelled as well.
    pub cascade: Option<bool>,
}

/// The status of the job, and what became of its descendants.
pub type CancelAnswer = Extended<JobStatus, WithDescendants>;

/// What a cancel with `cascade` did beside the job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WithDescendants {
    /// Only where the request had `cascade`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub descendants: Option<Descendants>,
}

/// The descendants that a cancel reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(missing_docs, reason = "the fields are described in fields.rs")]
pub struct Descendants {
    pub cancelled: u64,
    pub more: bool,
}

impl ExtensionFields for WithDescendants {
    const SCHEMA_NAME: &'static str = "CancelledJob";
}
