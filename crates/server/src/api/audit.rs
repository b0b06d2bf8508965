//! The audit log: what people and configuration changed.

use super::list::{position, sealed, top};
use crate::{context::RequestContext, error::Reply, extract::QueryParams};
use axum::Json;
use engine::Scope;
use wire::{AuditShape, Page};

/// Lists audit entries, the newest first. Entries name jobs about any subject, so the route is for
/// callers without limits within their tenant.
pub(crate) async fn audit(
    context: RequestContext,
    params: QueryParams,
) -> Reply<Json<Page<AuditShape>>> {
    context.grant().may_everything()?;
    let (limit, owner) = (top(&params)?, context.owns("/api/audit"));
    let before = position(&context.app, &params, owner).await?.map(u64::from_be_bytes);
    let entries = context.node().audit(context.scope(), before, limit).await?;
    let more = entries.len() == limit;
    let next = entries.last().map(|entry| entry.number).filter(|number| more && *number > 1);
    let next = next.map(|number| sealed(&context.app, owner, &number.to_be_bytes())).transpose()?;
    let shown = |entry| {
        let shape = AuditShape::from(entry);
        // Entries are numbered over all tenants: the number would tell a tenant how much the others
        // do.
        let number = shape.number.filter(|_| *context.scope() == Scope::All);
        AuditShape { number, ..shape }
    };
    Ok(Json(Page { items: entries.iter().map(shown).collect(), next_cursor: next }))
}
