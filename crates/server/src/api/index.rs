//! The root of the server: what this is, and where to go on.

use super::errors::wants_html;
use crate::{error::Reply, middleware::accepts};
use axum::{
    Json,
    http::{HeaderMap, HeaderValue, header},
    response::{IntoResponse, Response},
};
use maud::{PreEscaped, html};
use serde::Serialize;
use utoipa::ToSchema;

/// What answers at this address, and where its documents are.
#[derive(Serialize, ToSchema)]
pub(crate) struct Index {
    /// `Consign`.
    name: &'static str,
    /// The version of the server.
    version: &'static str,
    /// The API for people.
    docs: &'static str,
    /// The API for programs.
    openapi: &'static str,
    /// All error codes.
    errors: &'static str,
    /// Whether the server can take jobs.
    ready: &'static str,
}

const INDEX: Index = Index {
    name: "Consign",
    version: env!("CARGO_PKG_VERSION"),
    docs: "/docs",
    openapi: "/openapi.json",
    errors: "/errors",
    ready: "/readyz",
};

pub(crate) async fn index(headers: HeaderMap) -> Reply<Response> {
    accepts(&headers, &["application/json", "text/html"])?;
    if !wants_html(&headers) {
        return Ok(Json(INDEX).into_response());
    }
    let html = html! {
        (PreEscaped("<!doctype html><html lang=\"en\">"))
        meta charset="utf-8";
        title { (INDEX.name) }
        meta name="viewport" content="width=device-width";
        h1 { (INDEX.name) " " small { (INDEX.version) } }
        p { "A job system: submit a job, follow it, work on it. This is its HTTP API." }
        ul {
            li { a href=(INDEX.docs) { "The API, with an example of each request" } }
            li { a href=(INDEX.openapi) { "The API for programs (OpenAPI)" } }
            li { a href=(INDEX.errors) { "Error codes, and what to do about them" } }
            li { a href=(INDEX.ready) { "Whether this server can take jobs" } }
        }
    };
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    let policy = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");
    let headers = [(header::CONTENT_TYPE, kind), (header::CONTENT_SECURITY_POLICY, policy)];
    Ok((headers, html.into_string()).into_response())
}
