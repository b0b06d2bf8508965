//! Bulk actions: one request for many jobs, named by their ids or by a filter.

use super::list::{cursor, next_cursor};
use crate::{
    context::RequestContext,
    error::{ApiError, Reply},
    extract::{QueryParams, SettingsBody},
};
use axum::{Json, http::StatusCode};
use engine::check_range;
use platform::{BulkExtent, BulkResult, BulkVerb, JobSelection};
use store::PAGE_MAX;
use wire::{BulkAnswer, BulkRequest, BulkSelection, filter::some_jobs};

pub(crate) async fn cancel(
    context: RequestContext,
    params: QueryParams,
    SettingsBody(request): SettingsBody<BulkRequest>,
) -> Reply<(StatusCode, Json<BulkAnswer>)> {
    act(context, &params, request, (BulkVerb::Cancel, "jobs.cancel")).await
}

pub(crate) async fn redrive(
    context: RequestContext,
    params: QueryParams,
    SettingsBody(request): SettingsBody<BulkRequest>,
) -> Reply<(StatusCode, Json<BulkAnswer>)> {
    act(context, &params, request, (BulkVerb::Redrive, "jobs.redrive")).await
}

/// Carries a verb out on all jobs of the request, or on a page of them.
pub(super) async fn act(
    context: RequestContext,
    params: &QueryParams,
    request: BulkRequest,
    (verb, action): (BulkVerb, &'static str),
) -> Reply<(StatusCode, Json<BulkAnswer>)> {
    params.refuse_unknown(&["top", "cursor"])?;
    let selection = match request.check()? {
        BulkSelection::Jobs(ids) => JobSelection::Ids(ids.into_iter().collect()),
        BulkSelection::Matching(filter) => {
            JobSelection::Matching(some_jobs(filter, context.scope())?)
        }
    };
    let owner = context.cursor_owner(action);
    let before = cursor(&context.app, params, owner).await?;
    let limit = params.number("top")?;
    let limit = limit.map(|top| check_range("top", top, 1..=PAGE_MAX as u32)).transpose()?;
    let dry_run = request.dry_run.unwrap_or(false);
    let extent = BulkExtent { dry_run, before, limit: limit.map(|top| top as usize) };
    let operation = match dry_run {
        true => None,
        false => Some(Operation::begin(&context, &request, action).await?),
    };
    let operation_id = operation.as_ref().map(|operation| operation.id.clone());
    let (context, result) = run_to_completion(async move {
        let may_touch = |job: &_| context.caller.reaches(job);
        let work = context.node().bulk(context.scope(), verb, selection, extent, &may_touch);
        let result = work.await?;
        if let Some(operation) = operation {
            operation.end(&context, result.matched).await?;
        }
        Ok::<_, platform::Error>((context, result))
    })
    .await?;
    let BulkResult { matched, passed_over, next } = result;
    let next_cursor = next_cursor(&context.app, context.cursor_owner(action), next)?;
    let answer = BulkAnswer { matched, passed_over, operation_id, next_cursor };
    Ok((StatusCode::ACCEPTED, Json(answer)))
}

/// A bulk action in the audit log.
struct Operation {
    id: String,
    action: &'static str,
    target: String,
}

impl Operation {
    /// Records the action before the first job is touched: each job's history tells the rest.
    async fn begin(
        context: &RequestContext,
        request: &BulkRequest,
        action: &'static str,
    ) -> Reply<Self> {
        let target = match (&request.filter, &request.job_ids) {
            (Some(filter), _) => filter.clone(),
            (None, ids) => ids.as_ref().map_or_else(String::new, |ids| ids.join(" ")),
        };
        let operation = Operation { id: context.app.new_correlation().to_string(), action, target };
        operation.record(context, &format!("operation {}", operation.id)).await?;
        Ok(operation)
    }

    /// Records how many jobs it changed.
    async fn end(&self, context: &RequestContext, matched: u64) -> Result<(), platform::Error> {
        let jobs = if matched == 1 { "1 job".into() } else { format!("{matched} jobs") };
        self.record(context, &format!("operation {}: {jobs}", self.id)).await
    }

    async fn record(&self, context: &RequestContext, note: &str) -> Result<(), platform::Error> {
        let (actor, target) = (context.actor(), self.target.as_str());
        context.node().record_action(&actor, self.action, target, Some(note)).await
    }
}

/// Runs the work to its end, even if the client stops waiting for it.
pub(super) async fn run_to_completion<T: Send + 'static, E: Into<ApiError> + Send + 'static>(
    work: impl Future<Output = Result<T, E>> + Send + 'static,
) -> Reply<T> {
    let result = tokio::spawn(work).await;
    let result = result.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
    result.map_err(Into::into)
}
