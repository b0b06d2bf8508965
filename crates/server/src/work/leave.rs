//! Leave: a worker signs off.

use crate::{context::RequestContext, no::Reply, sent::Sent};
use axum::Json;
use wire::{LeaveAnswer, LeaveRequest};

pub(crate) async fn leave(
    context: RequestContext,
    Sent(request, _): Sent<LeaveRequest>,
) -> Reply<Json<LeaveAnswer>> {
    let worker = request.check()?;
    context.node().leave(context.scope(), &worker).await?;
    Ok(Json(LeaveAnswer { worker_id: worker.to_string() }))
}
