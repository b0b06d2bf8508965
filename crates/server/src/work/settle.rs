//! Settle: workers report how their attempts ended, each with an answer of its own.

use super::held::may_speak;
use crate::{
    Door,
    auth::Caller,
    guard::Correlation,
    no::{No, Reply},
    sent::{SentReport, item_of},
};
use axum::{Json, extract::State};
use engine::{CorrelationId, JobId, Report};
use platform::Verdict;
use wire::{PageItem, SettleAnswer, SettleItem, SettleRequest, SettledItem};

pub(crate) async fn settle(
    State(door): State<Door>,
    caller: Caller,
    correlation: Correlation,
    SentReport(request, _permit): SentReport<SettleRequest>,
) -> Reply<Json<SettleAnswer>> {
    request.check_count()?;
    let mut reports = Vec::with_capacity(request.items.len());
    let mut entries = Vec::with_capacity(request.items.len());
    for item in &request.items {
        entries.push(checked(&door, &caller, item).await.map(|report| {
            let id = report.id;
            reports.push(report);
            id
        }));
    }
    let verdicts = door.node.settle(caller.scope(), reports).await?;
    let ids = request.items.iter().map(|item| item.job_id(|item| &item.job_id));
    Ok(Json(answers(entries, ids, verdicts, &correlation.id)))
}

async fn checked(door: &Door, caller: &Caller, item: &PageItem<SettleItem>) -> Reply<Report> {
    let report = item_of(item)?.check()?;
    may_speak(door, caller, report.id).await?;
    Ok(report)
}

/// One answer for each item: a status, or a problem inside the 200.
pub(super) fn answers<'a>(
    entries: Vec<Reply<JobId>>,
    ids: impl Iterator<Item = &'a str>,
    verdicts: Vec<Verdict>,
    correlation: &CorrelationId,
) -> SettleAnswer {
    let mut verdicts = verdicts.into_iter();
    let items = entries.into_iter().zip(ids).map(|(entry, said)| {
        let answered = entry.and_then(|id| {
            let status = verdicts.next().expect("one verdict for each report")?;
            Ok(SettledItem::settled(id, status))
        });
        answered.unwrap_or_else(|no: No| {
            no.tell(correlation);
            SettledItem::refused(said, no.problem(correlation))
        })
    });
    SettleAnswer { items: items.collect() }
}
