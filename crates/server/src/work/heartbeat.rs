//! Heartbeat: a worker says that it lives, and learns how its leases stand.

use super::held::{answer_each, check_each};
use crate::{
    context::RequestContext,
    no::{No, Reply},
    sent::SentReport,
};
use axum::Json;
use wire::{CheckedHeartbeat, HeartbeatAnswer, HeartbeatItem, HeartbeatRequest, PulseShape};

pub(crate) async fn heartbeat(
    context: RequestContext,
    SentReport(request, _permit): SentReport<HeartbeatRequest>,
) -> Reply<Json<HeartbeatAnswer>> {
    let worker = request.check()?;
    let check = |item: &HeartbeatItem| {
        let CheckedHeartbeat { beat, left_out } = item.check()?;
        Ok((beat.id, beat, left_out))
    };
    let (beats, entries) = check_each(&context, &request.leases, check).await;
    let pulses = context.node().heartbeat(context.scope(), &worker, beats).await?;
    let correlation = &context.correlation.id;
    let leases = answer_each(
        &context,
        entries,
        pulses,
        |id, left_out, pulse| {
            let problem = left_out.map(|refusal| No::Refused(refusal).problem(correlation));
            Ok(PulseShape { problem, ..PulseShape::new(id, pulse?) })
        },
        |index, problem| {
            PulseShape::refused(request.leases[index].job_id(|item| &item.job_id), problem)
        },
    );
    Ok(Json(HeartbeatAnswer { leases }))
}
