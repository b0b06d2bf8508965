//! The OpenAPI document of this server, for programs and for people.
//!
//! Both forms are made once, from the table of routes, the shapes of the wire and the catalogue of
//! codes. A route has its [`Doc`] in the table, so that none can be left out.

mod doc;
mod document;
mod examples;
mod jobs;
mod operators;
mod page;
mod schema_rules;
mod shared_parameters;
mod system;
#[cfg(test)]
mod tests;
mod work;

pub(crate) use doc::{Doc, ParamLocation};
pub(crate) use jobs::*;
pub(crate) use operators::*;
pub(crate) use system::*;
pub(crate) use work::*;

use crate::{error::Reply, extract::matches_etag, middleware::accepts};
use axum::{
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use engine::hex;
use sha2::{Digest, Sha256};
use std::sync::LazyLock;
use utoipa::openapi::OpenApi;

static OPENAPI: LazyLock<OpenApi> = LazyLock::new(document::document);

/// A text that is constant for this version of the program, and its ETag.
struct StaticText {
    text: Bytes,
    etag: HeaderValue,
}

impl StaticText {
    fn new(text: String) -> Self {
        let digest = Sha256::digest(text.as_bytes());
        let etag = format!("\"{}\"", hex(&digest[..8]));
        let etag = HeaderValue::from_str(&etag).expect("hex is plain ASCII");
        StaticText { text: text.into(), etag }
    }

    fn answer(&'static self, request_headers: &HeaderMap, kind: &'static str) -> Response {
        let own = self.etag.to_str().expect("hex is plain ASCII");
        let is_current = request_headers
            .get(header::IF_NONE_MATCH)
            .is_some_and(|if_none_match| matches_etag(if_none_match, own));
        let headers = [
            (header::ETAG, self.etag.clone()),
            (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        ];
        if is_current {
            return (StatusCode::NOT_MODIFIED, headers).into_response();
        }
        let kind = [(header::CONTENT_TYPE, HeaderValue::from_static(kind))];
        (headers, kind, self.text.clone()).into_response()
    }
}

/// The document for programs.
pub(crate) async fn document(headers: HeaderMap) -> Reply<Response> {
    static JSON: LazyLock<StaticText> = LazyLock::new(|| {
        StaticText::new(OPENAPI.to_json().expect("a document is texts and numbers"))
    });
    accepts(&headers, &["application/json"])?;
    Ok(JSON.answer(&headers, "application/json"))
}

/// The document for people.
pub(crate) async fn docs(headers: HeaderMap) -> Reply<Response> {
    static HTML: LazyLock<StaticText> = LazyLock::new(|| StaticText::new(page::page(&OPENAPI)));
    accepts(&headers, &["text/html"])?;
    let mut response = HTML.answer(&headers, "text/html; charset=utf-8");
    let policy = HeaderValue::from_str(&page::policy()).expect("a hash is plain ASCII");
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    Ok(response)
}
