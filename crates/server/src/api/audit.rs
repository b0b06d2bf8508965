//! What people did to the house.

use super::list::top;
use crate::{Door, auth::Caller, no::Reply, sent::Params};
use axum::{Json, extract::State};
use engine::FieldProblem;
use wire::{AuditShape, Page};

/// The newest first. Its entries name jobs that may be about anything, so it is for those whom nothing of their
/// tenant is kept from.
pub(crate) async fn audit(
    State(door): State<Door>,
    caller: Caller,
    params: Params,
) -> Reply<Json<Page<AuditShape>>> {
    caller.grant().may_everything()?;
    let limit = top(&params)?;
    let wrong = |_| FieldProblem::new("cursor", "must be a nextCursor of this list");
    let before = params.get("cursor").map(|text| text.parse().map_err(wrong)).transpose()?;
    let entries = door.node.audit(caller.scope(), before, limit).await?;
    let more = entries.len() == limit;
    let next = entries.last().map(|entry| entry.number).filter(|number| more && *number > 1);
    let items = entries.iter().map(AuditShape::from).collect();
    Ok(Json(Page { items, next_cursor: next.map(|number| number.to_string()) }))
}
