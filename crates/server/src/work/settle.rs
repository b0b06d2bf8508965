//! Settle: workers report how their attempts ended; each report gets its own answer.

use super::authorize_lease::{answer_each, check_each};
use crate::{context::RequestContext, error::Reply, extract::ReportBody, middleware::ReportedJobs};
use axum::{Extension, Json};
use engine::JobId;
use platform::SettleResult;
use wire::{PageItem, SettleAnswer, SettleItem, SettleRequest, SettledItem};

pub(crate) async fn settle(
    context: RequestContext,
    ReportBody(request, _permit): ReportBody<SettleRequest>,
) -> Reply<(Extension<ReportedJobs>, Json<SettleAnswer>)> {
    request.check_count()?;
    let check = |item: &SettleItem| {
        let report = item.check()?;
        Ok((report.id, report, ()))
    };
    let (reports, entries) = check_each(&context, &request.items, check).await;
    let results = context.node().settle(context.scope(), reports).await?;
    Ok(settled(&context, &request.items, entries, results, |item| &item.job_id))
}

/// The answer, and the jobs for the log line.
pub(super) fn settled<T>(
    context: &RequestContext,
    items: &[PageItem<T>],
    entries: Vec<Reply<(JobId, ())>>,
    results: Vec<SettleResult>,
    named: fn(&T) -> &str,
) -> (Extension<ReportedJobs>, Json<SettleAnswer>) {
    let jobs = ReportedJobs::of(entries.iter().flatten().map(|(id, ())| *id));
    let accepted = |id, (), verdict: SettleResult| Ok(SettledItem::settled(id, verdict?));
    let refused = |index: usize, problem| SettledItem::refused(items[index].job_id(named), problem);
    let answer = SettleAnswer { items: answer_each(context, entries, results, accepted, refused) };
    (Extension(jobs), Json(answer))
}
