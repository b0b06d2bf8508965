//! One order for all jobs that a filter means.

use crate::{
    Door,
    auth::Caller,
    guard::Correlation,
    no::{No, Reply},
    sent::Setting,
};
use axum::{Json, extract::State, http::StatusCode};
use engine::Job;
use platform::Chosen;
use wire::{BulkAnswer, BulkRequest};

pub(crate) async fn cancel(
    State(door): State<Door>,
    caller: Caller,
    correlation: Correlation,
    Setting(request): Setting<BulkRequest>,
) -> Reply<(StatusCode, Json<BulkAnswer>)> {
    let filter = request.check()?;
    let operation = door.new_correlation().to_string();
    // Written down before the first job is touched: each job's history tells the rest.
    let note = format!("operation {operation}");
    let actor = caller.actor(&correlation);
    door.node.record_action(&actor, "jobs.cancel", &request.filter, Some(&note)).await?;
    let matched = in_full(async move {
        let may = |job: &Job| caller.reaches(job);
        door.node.cancel_matching(caller.scope(), Chosen::Matching(filter), &may).await
    })
    .await?;
    Ok((StatusCode::ACCEPTED, Json(BulkAnswer { matched, operation_id: Some(operation) })))
}

/// Goes on to its end also when the client does not wait for it.
pub(super) async fn in_full<T: Send + 'static, E: Into<No> + Send + 'static>(
    work: impl Future<Output = Result<T, E>> + Send + 'static,
) -> Reply<T> {
    let done = tokio::spawn(work).await;
    let done = done.unwrap_or_else(|broken| std::panic::resume_unwind(broken.into_panic()));
    done.map_err(Into::into)
}
