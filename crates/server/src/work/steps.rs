//! Steps: a handler begins and finishes a part of its job that completes once.

use super::held::may_speak;
use crate::{Door, auth::Caller, no::Reply, sent::SentReport};
use axum::{Json, extract::State};
use engine::Command;
use wire::{StepRequest, StepShape};

pub(crate) async fn steps(
    State(door): State<Door>,
    caller: Caller,
    SentReport(request, _permit): SentReport<StepRequest>,
) -> Reply<Json<StepShape>> {
    let order = request.check()?;
    may_speak(&door, &caller, order.job_id).await?;
    let (scope, id) = (caller.scope(), order.job_id);
    let answer = if let Command::FinishStep { token, name, result } = order.command {
        door.node.finish_step(scope, id, token, name, result).await?
    } else if let Command::BeginStep { token, name } = order.command {
        door.node.begin_step(scope, id, token, name).await?
    } else {
        unreachable!("a step is checked as one");
    };
    Ok(Json(StepShape::from(&answer)))
}
