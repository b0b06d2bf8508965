//! The catalogue of codes, for programs and for people.

use crate::{
    guard::accepts,
    no::{No, Reply},
    sent::Segment,
};
use axum::{
    Json,
    http::{HeaderMap, HeaderValue, header},
    response::{IntoResponse, Response},
};
use std::fmt::Write;
use wire::{CATALOGUE, CodeEntry, Page, codes, entry};

const FORMS: [&str; 2] = ["application/json", "text/html"];

pub(crate) async fn all(headers: HeaderMap) -> Reply<Response> {
    accepts(&headers, &FORMS)?;
    if wants_page(&headers) {
        return Ok(page("All codes", CATALOGUE));
    }
    Ok(Json(Page { items: CATALOGUE.to_vec(), next_cursor: None }).into_response())
}

pub(crate) async fn one(Segment(code): Segment, headers: HeaderMap) -> Reply<Response> {
    accepts(&headers, &FORMS)?;
    let Some(found) = entry(&code) else {
        return Err(No::stated(codes::NOT_FOUND, "there is no such code; GET /errors lists all"));
    };
    if wants_page(&headers) {
        return Ok(page(found.code, std::slice::from_ref(found)));
    }
    Ok(Json(*found).into_response())
}

/// Browsers ask for HTML by name; programs that do not care get JSON.
fn wants_page(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let accept = accept.unwrap_or_default();
    let place = |form: &str| accept.find(form).unwrap_or(usize::MAX);
    place("text/html") < place("application/json")
}

/// Everything on it is our own text, but is escaped all the same.
fn page(title: &str, entries: &[CodeEntry]) -> Response {
    let mut html = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>{0} – Consign</title>\
         <meta name=\"viewport\" content=\"width=device-width\"><h1>{0}</h1>",
        escaped(title)
    );
    for entry in entries {
        let status = entry.http_status.map_or("on a job".into(), |status| status.to_string());
        let again = if entry.retryable { "yes, as it is" } else { "not as it is" };
        write!(
            html,
            "<h2 id=\"{code}\"><a href=\"/errors/{code}\">{code}</a></h2><p><strong>{}</strong> {}</p>\
             <dl><dt>HTTP status</dt><dd>{status}</dd><dt>Send it again?</dt><dd>{again}</dd>\
             <dt>What to do</dt><dd>{}</dd></dl>",
            escaped(entry.title),
            escaped(entry.meaning),
            escaped(entry.what_to_do),
            code = escaped(entry.code),
        )
        .expect("a string takes everything");
    }
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    let policy = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");
    ([(header::CONTENT_TYPE, kind), (header::CONTENT_SECURITY_POLICY, policy)], html)
        .into_response()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
