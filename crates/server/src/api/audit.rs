//! The audit log: what people and configuration changed.

use super::list::{cursor_position, seal_position, top};
use crate::{context::RequestContext, error::Reply, extract::QueryParams};
use axum::Json;
use engine::{AuditEntry, AuditFilter, Checked, Pattern, Scope};
use platform::AuditQuery;
use wire::{AuditLogEntry, Page, named_scope, parse_time};

/// Lists audit entries, the newest first. Entries name jobs about any subject, so the route is for
/// callers without limits within their tenant.
pub(crate) async fn audit(
    context: RequestContext,
    params: QueryParams,
) -> Reply<Json<Page<AuditLogEntry>>> {
    context.grant().may_everything()?;
    params.refuse_unknown(&["actor", "action", "from", "to", "tenant", "top", "$top", "cursor"])?;
    let owner = context.cursor_owner("/api/audit");
    let query = AuditQuery {
        scope: named_scope(context.scope(), params.get("tenant"))?,
        filter: filter(&params)?,
        before: cursor_position(&context.app, &params, owner).await?.map(u64::from_be_bytes),
        limit: top(&params)?,
    };
    let page = context.node().audit(&query).await?;
    let next = page.next.map(|next| seal_position(&context.app, owner, &next.to_be_bytes()));
    let to_entry = |entry: &AuditEntry| {
        let entry = AuditLogEntry::from(entry);
        // Entries are numbered over all tenants: the number would tell a tenant how much the others
        // do.
        let number = entry.number.filter(|_| *context.scope() == Scope::All);
        AuditLogEntry { number, ..entry }
    };
    let items = page.entries.iter().map(to_entry).collect();
    Ok(Json(Page { items, next_cursor: next.transpose()? }))
}

fn filter(params: &QueryParams) -> Checked<AuditFilter> {
    let pattern = |name| params.get(name).map(|text| Pattern::parse(name, text)).transpose();
    let time = |name| params.get(name).map(|text| parse_time(name, text)).transpose();
    Ok(AuditFilter {
        actor: pattern("actor")?,
        action: pattern("action")?,
        from: time("from")?,
        to: time("to")?,
    })
}
