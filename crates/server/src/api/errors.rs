//! The catalogue of codes, for programs and for people.

use super::page::PageQuery;
use crate::{
    error::{ApiError, Reply},
    extract::{PathSegment, QueryParams},
    middleware::accepts,
};
use axum::{
    Json,
    http::{HeaderMap, HeaderValue, header},
    response::{IntoResponse, Response},
};
use maud::{PreEscaped, html};
use wire::{CATALOGUE, CodeEntry, codes, entry};

const MEDIA_TYPES: [&str; 2] = ["application/json", "text/html"];

pub(crate) async fn all(headers: HeaderMap, params: QueryParams) -> Reply<Response> {
    accepts(&headers, &MEDIA_TYPES)?;
    let query = PageQuery::or_all(&params)?;
    // A cursor is the position in the catalogue, which keeps its order.
    let numbered: Vec<(u32, CodeEntry)> = (0..).zip(CATALOGUE.iter().copied()).collect();
    let key = |(number, _): &(u32, CodeEntry)| number.to_be_bytes().to_vec();
    let entries = query.page_of(numbered, key, |(_, entry)| *entry);
    if wants_html(&headers) {
        return Ok(page("All codes", &entries.items));
    }
    Ok(Json(entries).into_response())
}

pub(crate) async fn one(PathSegment(code): PathSegment, headers: HeaderMap) -> Reply<Response> {
    accepts(&headers, &MEDIA_TYPES)?;
    let Some(code_entry) = entry(&code) else {
        return Err(ApiError::with_code(
            codes::NOT_FOUND,
            "there is no such code; GET /errors lists all",
        ));
    };
    if wants_html(&headers) {
        return Ok(page(code_entry.code, std::slice::from_ref(code_entry)));
    }
    Ok(Json(*code_entry).into_response())
}

/// Browsers name HTML in `Accept`; programs that do not care get JSON.
pub(super) fn wants_html(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let accept = accept.unwrap_or_default();
    let position = |media_type: &str| accept.find(media_type).unwrap_or(usize::MAX);
    position("text/html") < position("application/json")
}

fn page(title: &str, entries: &[CodeEntry]) -> Response {
    let html = html! {
        (PreEscaped("<!doctype html><html lang=\"en\">"))
        meta charset="utf-8";
        title { (title) " – Consign" }
        meta name="viewport" content="width=device-width";
        h1 { (title) }
        @for entry in entries {
            h2 id=(entry.code) { a href={ "/errors/" (entry.code) } { (entry.code) } }
            p { strong { (entry.title) } " " (entry.meaning) }
            dl {
                dt { "HTTP status" }
                dd { @if let Some(status) = entry.http_status { (status) } @else { "on a job" } }
                dt { "Send it again?" }
                dd { @if entry.retryable { "yes, as it is" } @else { "not as it is" } }
                dt { "What to do" }
                dd { (entry.what_to_do) }
            }
        }
    };
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    let policy = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");
    let headers = [(header::CONTENT_TYPE, kind), (header::CONTENT_SECURITY_POLICY, policy)];
    (headers, html.into_string()).into_response()
}
