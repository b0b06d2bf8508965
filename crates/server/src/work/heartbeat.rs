//! Heartbeat: a worker extends its leases, and learns their state.

use super::authorize_lease::{answer_each, check_each};
use crate::{
    context::RequestContext,
    error::{ApiError, Reply},
    extract::ReportBody,
};
use axum::Json;
use wire::{CheckedHeartbeat, HeartbeatAnswer, HeartbeatItem, HeartbeatRequest, HeartbeatResult};

pub(crate) async fn heartbeat(
    context: RequestContext,
    ReportBody(request, _permit): ReportBody<HeartbeatRequest>,
) -> Reply<Json<HeartbeatAnswer>> {
    let worker = request.check()?;
    let check = |item: &HeartbeatItem| {
        let CheckedHeartbeat { heartbeat, ignored_progress } = item.check()?;
        Ok((heartbeat.id, heartbeat, ignored_progress))
    };
    let (heartbeats, entries) = check_each(&context, &request.leases, check).await;
    let lease_states = context.node().heartbeat(context.scope(), &worker, heartbeats).await?;
    let correlation = &context.correlation.id;
    let leases = answer_each(
        &context,
        entries,
        lease_states,
        |id, ignored_progress, lease_state| {
            let problem =
                ignored_progress.map(|refusal| ApiError::Refused(refusal).problem(correlation));
            Ok(HeartbeatResult { problem, ..HeartbeatResult::new(id, lease_state?) })
        },
        |index, problem| {
            HeartbeatResult::refused(request.leases[index].job_id(|item| &item.job_id), problem)
        },
    );
    Ok(Json(HeartbeatAnswer { leases }))
}
