//! Release: workers give jobs back untried.

use super::{authorize_lease::check_each, settle::settled};
use crate::{context::RequestContext, error::Reply, extract::ReportBody, middleware::ReportedJobs};
use axum::{Extension, Json};
use wire::{ReleaseItem, ReleaseRequest, SettleAnswer};

pub(crate) async fn release(
    context: RequestContext,
    ReportBody(request, _permit): ReportBody<ReleaseRequest>,
) -> Reply<(Extension<ReportedJobs>, Json<SettleAnswer>)> {
    request.check_count()?;
    let check = |item: &ReleaseItem| {
        let release = item.check()?;
        Ok((release.id, release, ()))
    };
    let (releases, entries) = check_each(&context, &request.items, check).await;
    let results = context.node().release(context.scope(), releases).await?;
    Ok(settled(&context, &request.items, entries, results, |item| &item.job_id))
}
