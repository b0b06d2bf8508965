//! Many jobs in one request: all or none, or each with a result of its own.

use super::submission::{draft, key_header, submitted_job, with_signed_url, without_hidden_job};
use crate::{
    context::RequestContext,
    error::{ApiError, Reply},
    extract::{PageBody, QueryParams},
};
use axum::{
    Json,
    http::{HeaderMap, StatusCode},
};
use engine::{FieldProblem, JobDraft, Refusal, Submitted};
use wire::{BatchAnswer, BatchItem, BatchRequest};

pub(crate) async fn batch(
    context: RequestContext,
    params: QueryParams,
    headers: HeaderMap,
    PageBody(request, _permit): PageBody<BatchRequest>,
) -> Reply<(StatusCode, Json<BatchAnswer>)> {
    let (partial, signed) = (params.flag("partial")?, with_signed_url(&params, &context.caller)?);
    request.check_count()?;
    if key_header(&headers)?.is_some() {
        let detail = "must stand in each job of a batch: one header cannot name them all";
        return Err(FieldProblem::new("idempotencyKey", detail).into());
    }
    let submitted_job = |submitted: &Submitted| submitted_job(&context.app, submitted, signed);
    let drafts = request.read().map(|job| draft(job?, &context));
    if partial {
        let results = submit_each(&context, drafts.collect()).await?;
        let item = |result: Reply<Submitted>| match result {
            Ok(submitted) => BatchItem::Submitted(submitted_job(&submitted)),
            Err(error) => BatchItem::Refused { problem: error.problem(&context.correlation.id) },
        };
        let items = results.into_iter().map(item).collect();
        return Ok((StatusCode::MULTI_STATUS, Json(BatchAnswer { items })));
    }
    let numbered = drafts.enumerate();
    let drafts: Reply<Vec<JobDraft>> =
        numbered.map(|(index, draft)| draft.map_err(|error| error_of_item(error, index))).collect();
    let submitted = match context.node().submit_all(&context.caller.tenant(), drafts?).await {
        Ok(submitted) => submitted,
        Err(error) => return Err(without_hidden_job(&context, error.into()).await),
    };
    let items =
        submitted.iter().map(|submitted| BatchItem::Submitted(submitted_job(submitted))).collect();
    Ok((StatusCode::ACCEPTED, Json(BatchAnswer { items })))
}

/// A refused or unreadable item is named; other errors concern the whole batch.
fn error_of_item(error: ApiError, index: usize) -> ApiError {
    if let ApiError::Refused(refusal) = error {
        return ApiError::Refused(Refusal::Item { index, refusal: Box::new(refusal) });
    }
    if let ApiError::Unreadable(item) = error { item.of_item("jobs", index).into() } else { error }
}

/// Submits the valid drafts in one transaction, each with a result of its own.
async fn submit_each(
    context: &RequestContext,
    drafts: Vec<Reply<JobDraft>>,
) -> Reply<Vec<Reply<Submitted>>> {
    let mut drafts_to_submit = Vec::new();
    let checks: Vec<Reply<()>> =
        drafts.into_iter().map(|draft| draft.map(|draft| drafts_to_submit.push(draft))).collect();
    let submitted = context.node().submit_each(&context.caller.tenant(), drafts_to_submit).await?;
    let mut submitted = submitted.into_iter();
    let mut results = Vec::with_capacity(checks.len());
    for check in checks {
        let result =
            check.and_then(|()| Ok(submitted.next().expect("one answer for each draft")?));
        results.push(match result {
            Ok(submitted) => Ok(submitted),
            Err(error) => Err(without_hidden_job(context, error).await),
        });
    }
    Ok(results)
}
