//! The document for people: one page, without scripts, that fetches nothing.

mod fields;
mod prose;

use self::{
    fields::{fields_of, kind_of, table},
    prose::{example, prose, prose_line},
};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest, Sha256};
use utoipa::openapi::{
    Content, OpenApi, RefOr, Required, Response,
    path::{Operation, Parameter, ParameterIn, PathItem},
};

const STYLE: &str = include_str!("page.css");

/// What a browser may do with the page: show it, in its own style.
pub(super) fn policy() -> String {
    let digest = BASE64_STANDARD.encode(Sha256::digest(STYLE.as_bytes()));
    format!(
        "default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'"
    )
}

/// Draws the page. Whatever stands in the document is escaped.
pub(super) fn page(document: &OpenApi) -> String {
    let chapters = chapters(document);
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (document.info.title) " – the HTTP door" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                (contents(&chapters))
                main {
                    header {
                        h1 { (document.info.title) " " small { (document.info.version) } }
                        (prose(document.info.description.as_deref().unwrap_or_default()))
                        p { "For programs: " a href="/openapi.json" { "/openapi.json" } " (OpenAPI 3.1)." }
                        (example("export KEY=$(cat consign-data/admin.key)\nexport URL=http://127.0.0.1:8470"))
                    }
                    @for chapter in &chapters {
                        section id=(chapter.name) {
                            h2 { (chapter.name) }
                            p.lead { (chapter.about) }
                            @for route in &chapter.routes { (article(document, route)) }
                        }
                    }
                    (shapes(document))
                }
            }
        }
    };
    markup.into_string()
}

struct Chapter<'a> {
    name: &'a str,
    about: &'a str,
    routes: Vec<Told<'a>>,
}

/// One route as the document has it.
struct Told<'a> {
    method: &'static str,
    path: &'a str,
    id: &'a str,
    operation: &'a Operation,
}

fn chapters(document: &OpenApi) -> Vec<Chapter<'_>> {
    let tags = document.tags.iter().flatten();
    let chapter = |name: &'_ str| -> Vec<Told<'_>> {
        let routes = document.paths.paths.iter().flat_map(|(path, item)| routes(path, item));
        let is_here =
            |route: &Told<'_>| route.operation.tags.iter().flatten().any(|tag| tag == name);
        routes.filter(is_here).collect()
    };
    tags.map(|tag| Chapter {
        name: &tag.name,
        about: tag.description.as_deref().unwrap_or_default(),
        routes: chapter(&tag.name),
    })
    .collect()
}

fn routes<'a>(path: &'a str, item: &'a PathItem) -> impl Iterator<Item = Told<'a>> {
    let methods =
        [("GET", &item.get), ("POST", &item.post), ("PUT", &item.put), ("DELETE", &item.delete)];
    methods.into_iter().filter_map(move |(method, operation)| {
        let operation = operation.as_ref()?;
        let id = operation.operation_id.as_deref().unwrap_or_default();
        Some(Told { method, path, id, operation })
    })
}

fn contents(chapters: &[Chapter<'_>]) -> Markup {
    html! {
        nav {
            details open {
                summary { "Contents" }
                @for chapter in chapters {
                    h2 { a href={ "#" (chapter.name) } { (chapter.name) } }
                    ul {
                        @for route in &chapter.routes {
                            li { a href={ "#" (route.id) } {
                                (badge(route.method)) " " (title(route.operation))
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

fn title(operation: &Operation) -> &str {
    operation.summary.as_deref().unwrap_or_default()
}

fn article(document: &OpenApi, route: &Told<'_>) -> Markup {
    let operation = route.operation;
    html! {
        article id=(route.id) {
            h3 { a href={ "#" (route.id) } { (title(operation)) } }
            p.address { (badge(route.method)) " " code { (route.path) } " " span.id { (route.id) } }
            (prose(operation.description.as_deref().unwrap_or_default()))
            (parameters(operation))
            @if let Some((content, required)) = body(operation) {
                h4 { "Body" @if !required { " (may be left out)" } }
                @if let Some(schema) = &content.schema { (table(&fields_of(document, schema))) }
            }
            (example(&curl(route)))
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
    let place = match parameter.parameter_in {
        ParameterIn::Query => "query",
        ParameterIn::Path => "path",
        ParameterIn::Header => "header",
        ParameterIn::Cookie | ParameterIn::QueryString => "elsewhere",
    };
    html! {
        tr {
            td { code { (parameter.name) } @if parameter.required == Required::True { span.needed { "needed" } } }
            td { (place) }
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

/// A line that can be pasted.
fn curl(route: &Told<'_>) -> String {
    let mut path = route.path.to_owned();
    for parameter in route.operation.parameters.iter().flatten() {
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
    if route.operation.security.as_ref().is_some_and(|needed| !needed.is_empty()) {
        line += " \\\n  -H \"Authorization: Bearer $KEY\"";
    }
    if let Some(example) = body(route.operation).and_then(|(content, _)| content.example.as_ref()) {
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
    let (good, bad): (Vec<_>, Vec<_>) = all.partition(|(status, _)| status.as_str() < "400");
    html! {
        h4 { "Answers" }
        @for (status, response) in good { (good_answer(status, response)) }
        details {
            summary { "Reasons to say no" }
            div.wide { table {
                tr { th { "status" } th { "codes" } }
                @for (status, response) in bad {
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
            @if let RefOr::T(content) = content && let Some(shown) = &content.example {
                @let text = shown.as_str().map_or_else(|| pretty(shown), ToOwned::to_owned);
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
                    @let said = super::dress::said(schema);
                    @if !said.is_empty() { (prose(&said)) }
                    @let fields = fields_of(document, schema);
                    @if fields.is_empty() { p { (kind_of(schema)) } } @else { (table(&fields)) }
                }
            }
        }
    }
}
