//! Release: workers give jobs back untried.

use super::{held::may_speak, settle::answers};
use crate::{
    Door,
    auth::Caller,
    guard::Correlation,
    no::Reply,
    sent::{SentReport, item_of},
};
use axum::{Json, extract::State};
use engine::Release;
use wire::{PageItem, ReleaseItem, ReleaseRequest, SettleAnswer};

pub(crate) async fn release(
    State(door): State<Door>,
    caller: Caller,
    correlation: Correlation,
    SentReport(request, _permit): SentReport<ReleaseRequest>,
) -> Reply<Json<SettleAnswer>> {
    request.check_count()?;
    let mut releases = Vec::with_capacity(request.items.len());
    let mut entries = Vec::with_capacity(request.items.len());
    for item in &request.items {
        entries.push(checked(&door, &caller, item).await.map(|release| {
            let id = release.id;
            releases.push(release);
            id
        }));
    }
    let verdicts = door.node.release(caller.scope(), releases).await?;
    let ids = request.items.iter().map(|item| item.job_id(|item| &item.job_id));
    Ok(Json(answers(entries, ids, verdicts, &correlation.id)))
}

async fn checked(door: &Door, caller: &Caller, item: &PageItem<ReleaseItem>) -> Reply<Release> {
    let release = item_of(item)?.check()?;
    may_speak(door, caller, release.id).await?;
    Ok(release)
}
