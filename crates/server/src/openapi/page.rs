//! The document for people: one page without scripts that loads no other resources.

mod fields;
mod prose;

use self::{
    fields::{fields_of, kind_of, table},
    prose::{example, prose, prose_line},
};
use super::{document::method, schema_rules::description_of, shared_parameters::TAGS};
use crate::{
    openapi::Doc,
    routes::{Access, ROUTES, Route},
};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest, Sha256};
use utoipa::openapi::{
    Content, OpenApi, RefOr, Required, Response,
    path::{Operation, Parameter, ParameterIn},
};

const STYLE: &str = include_str!("page.css");

/// The Content-Security-Policy of the page: only its own style.
pub(super) fn policy() -> String {
    let digest = BASE64_STANDARD.encode(Sha256::digest(STYLE.as_bytes()));
    format!(
        "default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'"
    )
}

/// Renders the page. All text from the document is escaped.
pub(super) fn page(document: &OpenApi) -> String {
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (document.info.title) " – the HTTP API" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                (contents(document))
                main {
                    header {
                        h1 { (document.info.title) " " small { (document.info.version) } }
                        (prose(document.info.description.as_deref().unwrap_or_default()))
                        p { "For programs: " a href="/openapi.json" { "/openapi.json" } " (OpenAPI 3.1)." }
                        (example("export KEY=$(cat consign-data/admin.key)\nexport URL=http://127.0.0.1:8470"))
                    }
                    @for (tag, about) in TAGS {
                        section id=(tag) {
                            h2 { (tag) }
                            p.lead { (about) }
                            @for route in routes(document, tag) { (article(document, route)) }
                        }
                    }
                    (shapes(document))
                }
            }
        }
    };
    markup.into_string()
}

/// The routes of a chapter, in the order of the document.
fn routes(document: &OpenApi, tag: &str) -> impl Iterator<Item = &'static Route> {
    let all = document.paths.paths.keys().flat_map(|path| {
        let of = move |method| {
            ROUTES.iter().find(|one| (one.method, one.path) == (method, path.as_str()))
        };
        ["GET", "POST", "PUT", "PATCH", "DELETE"].into_iter().filter_map(of)
    });
    all.filter(move |route| route.doc.tag == tag)
}

fn contents(document: &OpenApi) -> Markup {
    html! {
        nav {
            details open {
                summary { "Contents" }
                @for (tag, _) in TAGS {
                    h2 { a href={ "#" (tag) } { (tag) } }
                    ul {
                        @for route in routes(document, tag) {
                            li { a href={ "#" (route.doc.id) } {
                                (badge(route.method)) " " (route.doc.title)
                            } }
                        }
                    }
                }
                h2 { a href="#shapes" { "Shapes" } }
            }
        }
    }
}

fn badge(method: &str) -> Markup {
    html! { span class={ "badge " (method.to_ascii_lowercase()) } { (method) } }
}

fn article(document: &OpenApi, route: &Route) -> Markup {
    let operation = document.paths.get_path_operation(route.path, method(route));
    let operation = operation.expect("the document has every route");
    let Doc { id, title, .. } = route.doc;
    html! {
        article id=(id) {
            h3 { a href={ "#" (id) } { (title) } }
            p.address { (badge(route.method)) " " code { (route.path) } " " span.id { (id) } }
            (prose(operation.description.as_deref().unwrap_or_default()))
            (parameters(operation))
            @if let Some((content, required)) = body(operation) {
                h4 { "Body" @if !required { " (may be left out)" } }
                @if let Some(schema) = &content.schema { (table(&fields_of(document, schema))) }
            }
            (example(&curl(route, operation)))
            (answers(operation))
        }
    }
}

fn parameters(operation: &Operation) -> Markup {
    let parameters =
        operation.parameters.iter().flatten().filter_map(|parameter| match parameter {
            RefOr::T(parameter) => Some(parameter),
            RefOr::Ref(_) => None,
        });
    html! {
        h4 { "Parameters" }
        div.wide { table {
            tr { th { "name" } th { "where" } th { "what" } th { "meaning" } }
            @for parameter in parameters { (row(parameter)) }
        } }
    }
}

fn row(parameter: &Parameter) -> Markup {
    let location = match parameter.parameter_in {
        ParameterIn::Query => "query",
        ParameterIn::Path => "path",
        ParameterIn::Header => "header",
        ParameterIn::Cookie | ParameterIn::QueryString => "elsewhere",
    };
    html! {
        tr {
            td { code { (parameter.name) } @if parameter.required == Required::True { span.needed { "needed" } } }
            td { (location) }
            td { @if let Some(schema) = &parameter.schema { (kind_of(schema)) } }
            td { (prose_line(parameter.description.as_deref().unwrap_or_default())) }
        }
    }
}

fn body(operation: &Operation) -> Option<(&Content, bool)> {
    let RefOr::T(body) = operation.request_body.as_ref()? else { return None };
    let RefOr::T(content) = body.content.get("application/json")? else { return None };
    Some((content, body.required == Some(Required::True)))
}

/// A command that can be pasted.
fn curl(route: &Route, operation: &Operation) -> String {
    let mut path = route.path.to_owned();
    for parameter in operation.parameters.iter().flatten() {
        if let RefOr::T(parameter) = parameter
            && let Some(RefOr::T(utoipa::openapi::Schema::Object(schema))) = &parameter.schema
            && let Some(example) = schema.examples.first().and_then(|example| example.as_str())
        {
            path = path.replace(&format!("{{{}}}", parameter.name), example);
        }
    }
    let mut line = String::from("curl -i");
    if route.method != "GET" {
        line += &format!(" -X {}", route.method);
    }
    line += &format!(" \"$URL{path}\"");
    if route.access != Access::Open {
        line += " \\\n  -H \"Authorization: Bearer $KEY\"";
    }
    if let Some(example) = body(operation).and_then(|(content, _)| content.example.as_ref()) {
        let quoted = example.to_string().replace('\'', r"'\''");
        line += &format!(" \\\n  -H 'Content-Type: application/json' \\\n  -d '{quoted}'");
    }
    line
}

fn answers(operation: &Operation) -> Markup {
    let all =
        operation.responses.responses.iter().filter_map(|(status, response)| match response {
            RefOr::T(response) => Some((status, response)),
            RefOr::Ref(_) => None,
        });
    let (successes, errors): (Vec<_>, Vec<_>) =
        all.partition(|(status, _)| status.as_str() < "400");
    html! {
        h4 { "Answers" }
        @for (status, response) in successes { (good_answer(status, response)) }
        details {
            summary { "Errors" }
            div.wide { table {
                tr { th { "status" } th { "codes" } }
                @for (status, response) in errors {
                    tr { td { (status) } td { (prose(&response.description)) } }
                }
            } }
        }
    }
}

fn good_answer(status: &str, response: &Response) -> Markup {
    html! {
        p { span.status { (status) } " " (prose_line(&response.description))
            @for (media, content) in &response.content {
                " " code { (media) }
                @if let RefOr::T(content) = content && let Some(schema) = &content.schema { " " (kind_of(schema)) }
            }
        }
        @if !response.headers.is_empty() {
            p.headers { "Headers: " @for name in response.headers.keys() { code { (name) } " " } }
        }
        @for content in response.content.values() {
            @if let RefOr::T(content) = content && let Some(example_value) = &content.example {
                @let text = example_value.as_str().map_or_else(|| pretty(example_value), ToOwned::to_owned);
                details { summary { "Example" } (example(&text)) }
            }
        }
    }
}

fn pretty(value: &serde_json::Value) -> String {
    serde_json::to_string_pretty(value).expect("JSON can be written")
}

fn shapes(document: &OpenApi) -> Markup {
    let shapes = document.components.iter().flat_map(|components| &components.schemas);
    html! {
        section id="shapes" {
            h2 { "Shapes" }
            p.lead { "What is sent and answered, by name." }
            @for (name, schema) in shapes {
                article id={ "shape-" (name) } {
                    h3 { a href={ "#shape-" (name) } { (name) } }
                    @let description = description_of(schema);
                    @if !description.is_empty() { (prose(&description)) }
                    @let fields = fields_of(document, schema);
                    @if fields.is_empty() { p { (kind_of(schema)) } } @else { (table(&fields)) }
                }
            }
        }
    }
}
