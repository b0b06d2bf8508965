//! Children: a worker reads how the children of its job ended.

use super::authorize_lease::may_report;
use crate::{
    api::list::{cursor, next_cursor, top},
    context::RequestContext,
    error::Reply,
    extract::{QueryParams, ReportBody},
};
use axum::Json;
use wire::{ChildStatus, ChildrenRequest, Page};

pub(crate) async fn children(
    context: RequestContext,
    params: QueryParams,
    ReportBody(request, _permit): ReportBody<ChildrenRequest>,
) -> Reply<Json<Page<ChildStatus>>> {
    params.refuse_unknown(&["top", "cursor"])?;
    let lease = request.check()?;
    may_report(&context, lease.0).await?;
    let owner = context.cursor_owner("/api/work/children");
    let before = cursor(&context.app, &params, owner).await?;
    let page = context.node().children(context.scope(), lease, before, top(&params)?).await?;
    let items = page.jobs.iter().map(ChildStatus::from).collect();
    Ok(Json(Page { items, next_cursor: next_cursor(&context.app, owner, page.next)? }))
}
