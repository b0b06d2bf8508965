//! Jobs by what they are, a page at a time.

use super::status::status_of;
use crate::{
    Door,
    auth::Caller,
    no::{No, Reply},
    sent::Params,
};
use axum::{Json, extract::State};
use engine::{FieldProblem, Filter, check_range};
use store::{Cursor, PAGE_MAX, Query};
use wire::{Page, StatusShape, job_filter};

/// How long a page is where nobody says.
const TOP: i64 = 50;

pub(crate) async fn list(
    State(door): State<Door>,
    caller: Caller,
    params: Params,
) -> Reply<Json<Page<StatusShape>>> {
    params.only(&["filter", "$filter", "top", "$top", "cursor"])?;
    let filter = filter(&params)?.map_or(Ok(Filter::Everything), |text| job_filter(&text))?;
    let (limit, before) = (top(&params)?, cursor(&params)?);
    let query = Query { scope: caller.scope().clone(), filter, before, limit };
    let page = door.node.list_reached(&query, &|job| caller.reaches(job)).await?;
    let items = page.jobs.iter().map(|job| status_of(&caller, job)).collect();
    Ok(Json(Page { items, next_cursor: page.next.map(|cursor| cursor.to_string()) }))
}

/// Both spellings of the parameter, but not both at once.
pub(super) fn filter(params: &Params) -> Reply<Option<String>> {
    match (params.get("filter"), params.get("$filter")) {
        (Some(_), Some(_)) => {
            Err(FieldProblem::new("filter", "must not be given as filter and as $filter").into())
        }
        (Some(text), None) | (None, Some(text)) => Ok(Some(text.to_owned())),
        (None, None) => Ok(None),
    }
}

pub(super) fn top(params: &Params) -> Reply<usize> {
    let top = match params.number("top")? {
        Some(top) => top,
        None => params.number("$top")?.unwrap_or(TOP),
    };
    Ok(check_range("top", top, 1..=PAGE_MAX as u32)? as usize)
}

pub(super) fn cursor(params: &Params) -> Reply<Option<Cursor>> {
    let Some(text) = params.get("cursor") else { return Ok(None) };
    let wrong = || FieldProblem::new("cursor", "must be a nextCursor of this list");
    Ok(Some(Cursor::parse(text).ok_or_else(wrong).map_err(No::from)?))
}
