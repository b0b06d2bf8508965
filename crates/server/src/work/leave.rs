//! Leave: a worker signs off.

use crate::{context::RequestContext, error::Reply, extract::JsonBody};
use axum::Json;
use wire::{LeaveAnswer, LeaveRequest};

pub(crate) async fn leave(
    context: RequestContext,
    JsonBody(request, _): JsonBody<LeaveRequest>,
) -> Reply<Json<LeaveAnswer>> {
    let worker = request.check()?;
    context.node().leave(context.scope(), &worker).await?;
    Ok(Json(LeaveAnswer { worker_id: worker.to_string() }))
}
