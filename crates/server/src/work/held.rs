//! Pages of workers' reports: who may make each of them, and an answer of its own for each.

use crate::{
    context::RequestContext,
    error::{ApiError, Reply},
};
use engine::JobId;
use wire::PageItem;

/// A lease token is proof enough for those without limits; the others are asked for each job. A job
/// that is not there is left to the verb, which says so.
pub(super) async fn may_speak(context: &RequestContext, id: JobId) -> Reply<()> {
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

/// Checks each item of a page. Gives the reports that the caller may make, and for each item the
/// job that it is about, with what `check` keeps of it, or why it is refused.
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
            Ok((id, report, kept)) => may_speak(context, id).await.map(|()| {
                reports.push(report);
                (id, kept)
            }),
            Err(no) => Err(no),
        });
    }
    (reports, entries)
}

/// One answer for each item, in the order of the page: what the verb said of its report, or a
/// problem inside the 200.
pub(super) fn answer_each<K, V, A>(
    context: &RequestContext,
    entries: Vec<Reply<(JobId, K)>>,
    verdicts: Vec<V>,
    accepted: impl Fn(JobId, K, V) -> Reply<A>,
    refused: impl Fn(usize, wire::Problem) -> A,
) -> Vec<A> {
    let (correlation, mut verdicts) = (&context.correlation.id, verdicts.into_iter());
    let answers = entries.into_iter().enumerate().map(|(index, entry)| {
        let answered = entry.and_then(|(id, kept)| {
            accepted(id, kept, verdicts.next().expect("one verdict for each report"))
        });
        answered.unwrap_or_else(|no| {
            no.tell(correlation);
            refused(index, no.problem(correlation))
        })
    });
    answers.collect()
}
