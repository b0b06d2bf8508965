//! Release: workers give jobs back untried.

use super::{held::check_each, settle::settled};
use crate::{context::RequestContext, no::Reply, sent::SentReport};
use axum::Json;
use wire::{ReleaseItem, ReleaseRequest, SettleAnswer};

pub(crate) async fn release(
    context: RequestContext,
    SentReport(request, _permit): SentReport<ReleaseRequest>,
) -> Reply<Json<SettleAnswer>> {
    request.check_count()?;
    let check = |item: &ReleaseItem| {
        let release = item.check()?;
        Ok((release.id, release, ()))
    };
    let (releases, entries) = check_each(&context, &request.items, check).await;
    let verdicts = context.node().release(context.scope(), releases).await?;
    Ok(Json(settled(&context, &request.items, entries, verdicts, |item| &item.job_id)))
}
