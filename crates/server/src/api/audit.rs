//! The audit log: what people and configuration changed.

use super::list::{cursor_position, seal_position, top};
use crate::{context::RequestContext, error::Reply, extract::QueryParams};
use axum::Json;
use engine::Scope;
use wire::{AuditLogEntry, Page};

/// Lists audit entries, the newest first. Entries name jobs about any subject, so the route is for
/// callers without limits within their tenant.
pub(crate) async fn audit(
    context: RequestContext,
    params: QueryParams,
) -> Reply<Json<Page<AuditLogEntry>>> {
    context.grant().may_everything()?;
    let (limit, owner) = (top(&params)?, context.cursor_owner("/api/audit"));
    let before = cursor_position(&context.app, &params, owner).await?.map(u64::from_be_bytes);
    let entries = context.node().audit(context.scope(), before, limit).await?;
    let more = entries.len() == limit;
    let next = entries.last().map(|entry| entry.number).filter(|number| more && *number > 1);
    let next =
        next.map(|number| seal_position(&context.app, owner, &number.to_be_bytes())).transpose()?;
    let to_entry = |entry| {
        let entry = AuditLogEntry::from(entry);
        // Entries are numbered over all tenants: the number would tell a tenant how much the others
        // do.
        let number = entry.number.filter(|_| *context.scope() == Scope::All);
        AuditLogEntry { number, ..entry }
    };
    Ok(Json(Page { items: entries.iter().map(to_entry).collect(), next_cursor: next }))
}
