//! Pages of workers' reports: each report has its own permission check and its own answer.

use crate::{
    context::RequestContext,
    error::{ApiError, Reply},
};
use engine::JobId;
use wire::PageItem;

/// For callers without limits, a valid lease token is enough. For other callers, the job is read
/// and checked. A missing job is left to the verb, which reports it.
pub(super) async fn may_report(context: &RequestContext, id: JobId) -> Reply<()> {
    let grant = context.grant();
    if grant.types.is_empty() && grant.subjects.is_empty() {
        return Ok(());
    }
    match context.node().job(context.scope(), id).await {
        Ok(job) => Ok(grant.may_touch(&job.envelope)?),
        Err(platform::Error::Refused(_)) => Ok(()),
        Err(error) => Err(ApiError::from(error)),
    }
}

/// Checks each item of a page. Returns the reports that the caller may make, and for each item its
/// job with what `check` keeps of it, or why it is refused.
pub(super) async fn check_each<T, R, K>(
    context: &RequestContext,
    items: &[PageItem<T>],
    check: impl Fn(&T) -> Reply<(JobId, R, K)>,
) -> (Vec<R>, Vec<Reply<(JobId, K)>>) {
    let mut reports = Vec::with_capacity(items.len());
    let mut entries = Vec::with_capacity(items.len());
    for item in items {
        let checked =
            item.read().map_err(|wrong| ApiError::Unreadable(wrong.clone())).and_then(&check);
        entries.push(match checked {
            Ok((id, report, extra)) => may_report(context, id).await.map(|()| {
                reports.push(report);
                (id, extra)
            }),
            Err(error) => Err(error),
        });
    }
    (reports, entries)
}

/// One answer for each item, in the order of the page: the verb's result, or a problem inside the
/// 200.
pub(super) fn answer_each<K, V, A>(
    context: &RequestContext,
    entries: Vec<Reply<(JobId, K)>>,
    results: Vec<V>,
    accepted: impl Fn(JobId, K, V) -> Reply<A>,
    refused: impl Fn(usize, wire::Problem) -> A,
) -> Vec<A> {
    let (correlation, mut results) = (&context.correlation.id, results.into_iter());
    let answers = entries.into_iter().enumerate().map(|(index, entry)| {
        let reply = entry.and_then(|(id, extra)| {
            accepted(id, extra, results.next().expect("one result for each report"))
        });
        reply.unwrap_or_else(|error| {
            error.log(correlation);
            refused(index, error.problem(correlation))
        })
    });
    answers.collect()
}
