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
    let chosen = JobSelection::Matching(request.check()?);
    let operation = context.app.new_correlation().to_string();
    // Recorded before the first job is touched: each job's history tells the rest.
    let (actor, note) = (context.actor(), format!("operation {operation}"));
    context.node().record_action(&actor, "jobs.cancel", &request.filter, Some(&note)).await?;
    let matched = in_full(async move {
        let may = |job: &_| context.caller.reaches(job);
        context.node().cancel_matching(context.scope(), chosen, &may).await
    })
    .await?;
    Ok((StatusCode::ACCEPTED, Json(BulkAnswer { matched, operation_id: Some(operation) })))
}

/// Runs the work to its end, even if the client stops waiting for it.
pub(super) async fn in_full<T: Send + 'static, E: Into<ApiError> + Send + 'static>(
    work: impl Future<Output = Result<T, E>> + Send + 'static,
) -> Reply<T> {
    let done = tokio::spawn(work).await;
    let done = done.unwrap_or_else(|broken| std::panic::resume_unwind(broken.into_panic()));
    done.map_err(Into::into)
}
