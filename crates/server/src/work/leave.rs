//! Leave: a worker signs off.

use crate::{Door, auth::Caller, no::Reply, sent::Sent};
use axum::{Json, extract::State};
use wire::{LeaveAnswer, LeaveRequest};

pub(crate) async fn leave(
    State(door): State<Door>,
    caller: Caller,
    Sent(request, _): Sent<LeaveRequest>,
) -> Reply<Json<LeaveAnswer>> {
    let worker = request.check()?;
    door.node.leave(caller.scope(), &worker).await?;
    Ok(Json(LeaveAnswer { worker_id: worker.to_string() }))
}
