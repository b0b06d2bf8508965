//! Heartbeat: a worker says that it lives, and learns how its leases stand.

use super::held::may_speak;
use crate::{
    Door,
    auth::Caller,
    guard::Correlation,
    no::{No, Reply},
    sent::{SentReport, item_of},
};
use axum::{Json, extract::State};
use engine::{Beat, Refusal};
use wire::{
    CheckedHeartbeat, HeartbeatAnswer, HeartbeatItem, HeartbeatRequest, PageItem, PulseShape,
};

pub(crate) async fn heartbeat(
    State(door): State<Door>,
    caller: Caller,
    correlation: Correlation,
    SentReport(request, _permit): SentReport<HeartbeatRequest>,
) -> Reply<Json<HeartbeatAnswer>> {
    let worker = request.check()?;
    let mut beats = Vec::new();
    let mut entries = Vec::with_capacity(request.leases.len());
    for item in &request.leases {
        entries.push(checked(&door, &caller, item).await.map(|(beat, left_out)| {
            let id = beat.id;
            beats.push(beat);
            (id, left_out)
        }));
    }
    let mut pulses = door.node.heartbeat(caller.scope(), &worker, beats).await?.into_iter();
    let shapes = entries.into_iter().zip(&request.leases).map(|(entry, item)| {
        let answered = entry.and_then(|(id, left_out)| {
            let pulse = pulses.next().expect("one answer for each beat")?;
            let problem = left_out.map(|refusal| No::Refused(refusal).problem(&correlation.id));
            Ok(PulseShape { problem, ..PulseShape::new(id, pulse) })
        });
        answered.unwrap_or_else(|no: No| {
            no.tell(&correlation.id);
            PulseShape::refused(item.job_id(|item| &item.job_id), no.problem(&correlation.id))
        })
    });
    Ok(Json(HeartbeatAnswer { leases: shapes.collect() }))
}

async fn checked(
    door: &Door,
    caller: &Caller,
    item: &PageItem<HeartbeatItem>,
) -> Reply<(Beat, Option<Refusal>)> {
    let CheckedHeartbeat { beat, left_out } = item_of(item)?.check()?;
    may_speak(door, caller, beat.id).await?;
    Ok((beat, left_out))
}
