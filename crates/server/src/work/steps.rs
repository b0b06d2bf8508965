//! Steps: a handler begins and finishes a part of its job that completes once.

use super::authorize_lease::may_report;
use crate::{context::RequestContext, error::Reply, extract::ReportBody};
use axum::Json;
use wire::{StepRequest, StepStatus};

pub(crate) async fn steps(
    context: RequestContext,
    ReportBody(request, _permit): ReportBody<StepRequest>,
) -> Reply<Json<StepStatus>> {
    let step = request.check()?;
    may_report(&context, step.id).await?;
    let answer = context.node().step(context.scope(), step).await?;
    Ok(Json(StepStatus::from(&answer)))
}
