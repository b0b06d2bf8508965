//! Settle: workers report how their attempts ended; each report gets its own answer.

use super::authorize_lease::{answer_each, check_each};
use crate::{context::RequestContext, error::Reply, extract::ReportBody};
use axum::Json;
use engine::JobId;
use platform::SettleResult;
use wire::{PageItem, SettleAnswer, SettleItem, SettleRequest, SettledItem};

pub(crate) async fn settle(
    context: RequestContext,
    ReportBody(request, _permit): ReportBody<SettleRequest>,
) -> Reply<Json<SettleAnswer>> {
    request.check_count()?;
    let check = |item: &SettleItem| {
        let report = item.check()?;
        Ok((report.id, report, ()))
    };
    let (reports, entries) = check_each(&context, &request.items, check).await;
    let results = context.node().settle(context.scope(), reports).await?;
    Ok(Json(settled(&context, &request.items, entries, results, |item| &item.job_id)))
}

pub(super) fn settled<T>(
    context: &RequestContext,
    items: &[PageItem<T>],
    entries: Vec<Reply<(JobId, ())>>,
    results: Vec<SettleResult>,
    named: fn(&T) -> &str,
) -> SettleAnswer {
    let accepted = |id, (), verdict: SettleResult| Ok(SettledItem::settled(id, verdict?));
    let refused = |index: usize, problem| SettledItem::refused(items[index].job_id(named), problem);
    SettleAnswer { items: answer_each(context, entries, results, accepted, refused) }
}
