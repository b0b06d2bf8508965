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
use wire::{JobStatus, Page, codes, job_filter};

/// The default length of a page.
const TOP: i64 = 50;

pub(crate) async fn list(
    context: RequestContext,
    params: QueryParams,
) -> Reply<Json<Page<JobStatus>>> {
    params.refuse_unknown(&["filter", "$filter", "top", "$top", "cursor"])?;
    let read = |text| job_filter(text, context.scope());
    let filter = filter(&params)?.map_or(Ok(Filter::Everything), read)?;
    let (owner, limit) = (context.cursor_owner("/api/jobs"), top(&params)?);
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

pub(crate) fn top(params: &QueryParams) -> Reply<usize> {
    let top = match params.number("top")? {
        Some(top) => top,
        None => params.number("$top")?.unwrap_or(TOP),
    };
    Ok(check_range("top", top, 1..=PAGE_MAX as u32)? as usize)
}

/// The position in the caller's cursor.
pub(crate) async fn cursor(
    app: &AppState,
    params: &QueryParams,
    owner: CursorOwner<'_>,
) -> Reply<Option<Cursor>> {
    Ok(cursor_position(app, params, owner).await?.map(Cursor::from_bytes))
}

/// The cursor for the next page.
pub(crate) fn next_cursor(
    app: &AppState,
    owner: CursorOwner<'_>,
    next: Option<Cursor>,
) -> Reply<Option<String>> {
    next.map(|cursor| seal_position(app, owner, &cursor.to_bytes())).transpose()
}

/// The position in the caller's cursor, with the fixed length that positions of this list have.
pub(super) async fn cursor_position<const BYTES: usize>(
    app: &AppState,
    params: &QueryParams,
    owner: CursorOwner<'_>,
) -> Reply<Option<[u8; BYTES]>> {
    let Some(text) = params.get("cursor") else { return Ok(None) };
    let position = signing::open_cursor(app, owner, text).await?;
    let position = position.and_then(|bytes| bytes.try_into().ok());
    Ok(Some(position.ok_or_else(wrong_cursor)?))
}

pub(super) fn wrong_cursor() -> FieldProblem {
    FieldProblem::new("cursor", "must be a nextCursor of this list")
}

/// Seals a position for the client.
pub(super) fn seal_position(
    app: &AppState,
    owner: CursorOwner<'_>,
    position_bytes: &[u8],
) -> Reply<String> {
    let no_key =
        || ApiError::with_code(codes::STORE_UNAVAILABLE, "there is no key to seal a cursor with");
    signing::seal_cursor(&app.node, owner, position_bytes).ok_or_else(no_key)
}
