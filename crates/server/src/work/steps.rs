//! Steps: a handler begins and finishes a part of its job that completes once.

use super::held::may_speak;
use crate::{context::RequestContext, no::Reply, sent::SentReport};
use axum::Json;
use wire::{StepRequest, StepShape};

pub(crate) async fn steps(
    context: RequestContext,
    SentReport(request, _permit): SentReport<StepRequest>,
) -> Reply<Json<StepShape>> {
    let step = request.check()?;
    may_speak(&context, step.id).await?;
    let answer = context.node().step(context.scope(), step).await?;
    Ok(Json(StepShape::from(&answer)))
}
