//! Job lists by filter, one page at a time.

use super::status::status_of;
use crate::{
    AppState,
    auth::{CursorOwner, signing},
    context::RequestContext,
    error::{ApiError, Reply},
    extract::QueryParams,
};
use axum::Json;
use engine::{FieldProblem, Filter, check_range};
use store::{Cursor, PAGE_MAX, Query};
use wire::{Page, StatusShape, codes, job_filter};

/// The default length of a page.
const TOP: i64 = 50;

pub(crate) async fn list(
    context: RequestContext,
    params: QueryParams,
) -> Reply<Json<Page<StatusShape>>> {
    params.only(&["filter", "$filter", "top", "$top", "cursor"])?;
    let filter = filter(&params)?.map_or(Ok(Filter::Everything), job_filter)?;
    let (owner, limit) = (context.owns("/api/jobs"), top(&params)?);
    let before = cursor(&context.app, &params, owner).await?;
    let query = Query { scope: context.scope().clone(), filter, before, limit };
    let page = context.node().list_permitted(&query, &|job| context.caller.reaches(job)).await?;
    let items = page.jobs.iter().map(|job| status_of(&context.caller, job)).collect();
    Ok(Json(Page { items, next_cursor: next_cursor(&context.app, owner, page.next)? }))
}

/// Both spellings of the parameter are accepted, but not both at once.
fn filter(params: &QueryParams) -> Reply<Option<&str>> {
    match (params.get("filter"), params.get("$filter")) {
        (Some(_), Some(_)) => {
            Err(FieldProblem::new("filter", "must not be given as filter and as $filter").into())
        }
        (text, None) | (None, text) => Ok(text),
    }
}

pub(super) fn top(params: &QueryParams) -> Reply<usize> {
    let top = match params.number("top")? {
        Some(top) => top,
        None => params.number("$top")?.unwrap_or(TOP),
    };
    Ok(check_range("top", top, 1..=PAGE_MAX as u32)? as usize)
}

/// The position in the caller's cursor.
pub(super) async fn cursor(
    app: &AppState,
    params: &QueryParams,
    owner: CursorOwner<'_>,
) -> Reply<Option<Cursor>> {
    Ok(position(app, params, owner).await?.map(Cursor::from_bytes))
}

/// The cursor for the next page.
pub(super) fn next_cursor(
    app: &AppState,
    owner: CursorOwner<'_>,
    next: Option<Cursor>,
) -> Reply<Option<String>> {
    next.map(|cursor| sealed(app, owner, &cursor.to_bytes())).transpose()
}

/// The position in the caller's cursor, with the fixed length that positions of this list have.
pub(super) async fn position<const BYTES: usize>(
    app: &AppState,
    params: &QueryParams,
    owner: CursorOwner<'_>,
) -> Reply<Option<[u8; BYTES]>> {
    let Some(text) = params.get("cursor") else { return Ok(None) };
    let opened = signing::open_cursor(app, owner, text).await?;
    let opened = opened.and_then(|bytes| bytes.try_into().ok());
    Ok(Some(opened.ok_or_else(wrong_cursor)?))
}

pub(super) fn wrong_cursor() -> FieldProblem {
    FieldProblem::new("cursor", "must be a nextCursor of this list")
}

/// Seals a position for the client.
pub(super) fn sealed(app: &AppState, owner: CursorOwner<'_>, position: &[u8]) -> Reply<String> {
    let away =
        || ApiError::stated(codes::STORE_UNAVAILABLE, "there is no key to seal a cursor with");
    signing::seal_cursor(&app.node, owner, position).ok_or_else(away)
}
