//! What people did to the house.

use super::list::{position, sealed, top};
use crate::{context::RequestContext, error::Reply, extract::QueryParams};
use axum::Json;
use engine::Scope;
use wire::{AuditShape, Page};

/// The newest first. Its entries name jobs that may be about anything, so it is for those whom
/// nothing of their tenant is kept from.
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
        // Entries are counted over all tenants: only those who see all may see how many there are.
        let number = shape.number.filter(|_| *context.scope() == Scope::All);
        AuditShape { number, ..shape }
    };
    Ok(Json(Page { items: entries.iter().map(shown).collect(), next_cursor: next }))
}
