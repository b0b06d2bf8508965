//! The audit log, as those see it who may.

use crate::{keys::tenant_word, time::Rfc3339};
use engine::AuditEntry;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One management action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AuditEntry)]
pub struct AuditShape {
    /// 1 for the first, without gaps; null for those who see one tenant, because it counts all.
    pub number: Option<u64>,
    /// When it was done.
    pub at: Rfc3339,
    /// Who did it.
    pub who: String,
    /// Whose house it was done in: a tenant, or `*`.
    pub tenant: String,
    /// What was done.
    pub action: String,
    /// What it was done to.
    pub target: String,
    /// What else is worth knowing.
    pub detail: Option<String>,
    /// What to search the logs for.
    pub correlation_id: String,
    /// Ties it to the entry before.
    pub hash: String,
}

impl From<&AuditEntry> for AuditShape {
    fn from(entry: &AuditEntry) -> Self {
        AuditShape {
            number: Some(entry.number),
            at: entry.at.into(),
            who: (*entry.who).into(),
            tenant: tenant_word(&entry.scope),
            action: (*entry.action).into(),
            target: (*entry.target).into(),
            detail: entry.detail.as_deref().map(Into::into),
            correlation_id: entry.correlation.to_string(),
            hash: entry.hash.to_string(),
        }
    }
}
