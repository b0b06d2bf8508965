//! Bulk cancel: one request for all jobs that match a filter.

use crate::{
    context::RequestContext,
    error::{ApiError, Reply},
    extract::SettingsBody,
};
use axum::{Json, http::StatusCode};
use platform::JobSelection;
use wire::{BulkAnswer, BulkRequest};

pub(crate) async fn cancel(
    context: RequestContext,
    SettingsBody(request): SettingsBody<BulkRequest>,
) -> Reply<(StatusCode, Json<BulkAnswer>)> {
    let selection = JobSelection::Matching(request.check(context.scope())?);
    let operation = context.app.new_correlation().to_string();
    // Recorded before the first job is touched: each job's history tells the rest.
    let (actor, note) = (context.actor(), format!("operation {operation}"));
    context.node().record_action(&actor, "jobs.cancel", &request.filter, Some(&note)).await?;
    let matched = run_to_completion(async move {
        let may_touch = |job: &_| context.caller.reaches(job);
        context.node().cancel_matching(context.scope(), selection, &may_touch).await
    })
    .await?;
    Ok((StatusCode::ACCEPTED, Json(BulkAnswer { matched, operation_id: Some(operation) })))
}

/// Runs the work to its end, even if the client stops waiting for it.
pub(super) async fn run_to_completion<T: Send + 'static, E: Into<ApiError> + Send + 'static>(
    work: impl Future<Output = Result<T, E>> + Send + 'static,
) -> Reply<T> {
    let result = tokio::spawn(work).await;
    let result = result.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
    result.map_err(Into::into)
}
