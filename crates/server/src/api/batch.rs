//! Many jobs handed over at once: all or none, or each with a fate of its own.

use super::submission::{draft, key_header, shown, with_signed_url, without_hidden_job};
use crate::{
    Door,
    auth::Caller,
    guard::Correlation,
    no::{No, Reply},
    sent::{Params, SentPage},
};
use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode},
};
use engine::{FieldProblem, JobDraft, Submitted};
use wire::{BatchAnswer, BatchItem, BatchRequest};

pub(crate) async fn batch(
    State(door): State<Door>,
    caller: Caller,
    correlation: Correlation,
    params: Params,
    headers: HeaderMap,
    SentPage(request, _permit): SentPage<BatchRequest>,
) -> Reply<(StatusCode, Json<BatchAnswer>)> {
    let (partial, signed) = (params.flag("partial")?, with_signed_url(&params, &caller)?);
    request.check_count()?;
    if key_header(&headers)?.is_some() {
        let detail = "must stand in each job of a batch: one header cannot name them all";
        return Err(FieldProblem::new("idempotencyKey", detail).into());
    }
    let drafts = request.read().map(|job| draft(job?, &caller, &correlation));
    if partial {
        let results = submit_each(&door, &caller, drafts.collect()).await?;
        let item = |result: Reply<Submitted>| match result {
            Ok(submitted) => BatchItem::Submitted(shown(&door, &submitted, signed)),
            Err(no) => BatchItem::Refused { problem: no.problem(&correlation.id) },
        };
        let items = results.into_iter().map(item).collect();
        return Ok((StatusCode::MULTI_STATUS, Json(BatchAnswer { items })));
    }
    let numbered = drafts.enumerate();
    let drafts: Reply<Vec<JobDraft>> =
        numbered.map(|(index, draft)| draft.map_err(|no| of_item(no, index))).collect();
    let submitted = match door.node.submit_all(&caller.tenant(), drafts?).await {
        Ok(submitted) => submitted,
        Err(error) => return Err(without_hidden_job(&door, &caller, error.into()).await),
    };
    let items = submitted.iter().map(|one| BatchItem::Submitted(shown(&door, one, signed)));
    Ok((StatusCode::ACCEPTED, Json(BatchAnswer { items: items.collect() })))
}

/// A refusal names the item; other reasons are about the whole.
fn of_item(no: No, index: usize) -> No {
    match no {
        No::Refused(refusal) => {
            No::Refused(engine::Refusal::Item { index, refusal: Box::new(refusal) })
        }
        No::Unreadable(item) => No::Unreadable(item.of_item("jobs", index)),
        No::Denied(_)
        | No::Stated(..)
        | No::Filter(_)
        | No::Store(_)
        | No::OutcomeUnknown(..)
        | No::Later(..) => no,
    }
}

/// Those that could be drafted go into one transaction, each on its own.
async fn submit_each(
    door: &Door,
    caller: &Caller,
    drafts: Vec<Reply<JobDraft>>,
) -> Reply<Vec<Reply<Submitted>>> {
    let mut places = Vec::with_capacity(drafts.len());
    let mut good = Vec::new();
    for draft in drafts {
        places.push(draft.map(|draft| good.push(draft)));
    }
    let mut submitted = door.node.submit_each(&caller.tenant(), good).await?.into_iter();
    let mut results = Vec::with_capacity(places.len());
    for place in places {
        let result = match place {
            Ok(()) => submitted.next().expect("one answer for each draft").map_err(No::from),
            Err(no) => Err(no),
        };
        results.push(match result {
            Ok(submitted) => Ok(submitted),
            Err(no) => Err(without_hidden_job(door, caller, no).await),
        });
    }
    Ok(results)
}
