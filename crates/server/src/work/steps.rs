//! Steps: a handler begins and finishes a part of its job that completes once.

use super::held::may_speak;
use crate::{Door, auth::Caller, no::Reply, sent::SentReport};
use axum::{Json, extract::State};
use wire::{StepRequest, StepShape};

pub(crate) async fn steps(
    State(door): State<Door>,
    caller: Caller,
    SentReport(request, _permit): SentReport<StepRequest>,
) -> Reply<Json<StepShape>> {
    let step = request.check()?;
    may_speak(&door, &caller, step.id).await?;
    let answer = door.node.step(caller.scope(), step).await?;
    Ok(Json(StepShape::from(&answer)))
}
