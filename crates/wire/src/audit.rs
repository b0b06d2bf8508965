//! The audit log, for callers who may see it.

use crate::time::Rfc3339;
use engine::AuditEntry;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One management action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AuditEntry)]
pub struct AuditLogEntry {
    /// 1 for the first, without gaps; null for a caller who sees one tenant, because it counts all
    /// tenants.
    pub number: Option<u64>,
    /// The time of the action.
    pub at: Rfc3339,
    /// The principal that acted.
    pub who: String,
    /// The name of its key; null for other principals.
    pub actor_name: Option<String>,
    /// The tenant concerned, or `*` for all.
    pub tenant: String,
    /// The action.
    pub action: String,
    /// The target of the action.
    pub target: String,
    /// Further details.
    pub detail: Option<String>,
    /// The correlation id under which the logs have the request.
    pub correlation_id: String,
    /// The hash of this entry, which covers the hash of the previous one.
    pub hash: String,
}

impl From<&AuditEntry> for AuditLogEntry {
    fn from(entry: &AuditEntry) -> Self {
        AuditLogEntry {
            number: Some(entry.number),
            at: entry.at.into(),
            who: (*entry.who).into(),
            actor_name: entry.name.as_ref().map(ToString::to_string),
            tenant: entry.scope.as_str().into(),
            action: (*entry.action).into(),
            target: (*entry.target).into(),
            detail: entry.detail.as_deref().map(Into::into),
            correlation_id: entry.correlation.to_string(),
            hash: entry.hash.to_string(),
        }
    }
}
