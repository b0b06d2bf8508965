//! The OpenAPI document: every route of the table, with its requests and answers.

use super::{
    doc::{Body, Kind, Param, ParamLocation, Representation, ResponseDoc, Shape},
    schema_rules::{Shapes, constrain, with_rules},
    shared_parameters::{
        CACHE_CONTROL, CHALLENGE, CODE_FORM, CORRELATED, CORRELATION, ETAG, RATE, RETRY_AFTER, TAGS,
    },
};
use crate::routes::{Access, ROUTES, Route};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use utoipa::openapi::{
    ArrayBuilder, Components, ContentBuilder, Header as HeaderDoc, HttpMethod, InfoBuilder,
    LicenseBuilder, Object, ObjectBuilder, OpenApi, OpenApiBuilder, PathsBuilder, Ref, RefOr,
    Required, Response, ResponseBuilder, ResponsesBuilder, Schema, SecurityRequirement, Server,
    Type,
    example::{Example, ExampleBuilder},
    link::LinkBuilder,
    path::{Operation, OperationBuilder, Parameter, ParameterBuilder, ParameterIn, PathItem},
    request_body::{RequestBody, RequestBodyBuilder},
    schema::{AdditionalProperties, SchemaType},
    security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme},
    tag::TagBuilder,
};
use wire::{CATALOGUE, FieldRule, LOWER_NAME, Problem, codes, entry};

const ABOUT: &str = "One job contract for asynchronous work: submit a job, follow it, work on it. JSON is camelCase; times \
    are RFC 3339 in UTC with milliseconds; unknown fields are ignored, except in bodies that set something. Every answer has an `X-Correlation-Id`, and every error is \
    `application/problem+json` with an `errorCode` that [/errors](/errors) explains.";

/// Makes the document from the table of routes.
pub(super) fn document() -> OpenApi {
    let mut paths = PathsBuilder::new();
    for route in ROUTES {
        paths = paths.path(route.path, PathItem::new(method(route), operation(route)));
    }
    let license = LicenseBuilder::new().name("Apache-2.0").identifier(Some("Apache-2.0")).build();
    let info = InfoBuilder::new().title("Consign").version(env!("CARGO_PKG_VERSION"));
    let tags =
        TAGS.map(|(name, about)| TagBuilder::new().name(name).description(Some(about)).build());
    OpenApiBuilder::new()
        .info(info.description(Some(ABOUT)).license(Some(license)).build())
        .servers(Some([Server::new("/")]))
        .tags(Some(tags))
        .paths(paths)
        .components(Some(components()))
        .build()
}

pub(super) fn method(route: &Route) -> HttpMethod {
    match route.method {
        "POST" => HttpMethod::Post,
        "PUT" => HttpMethod::Put,
        "PATCH" => HttpMethod::Patch,
        "DELETE" => HttpMethod::Delete,
        _ => HttpMethod::Get,
    }
}

fn operation(route: &Route) -> Operation {
    let doc = route.doc;
    let about = [doc.about, &needs(route)].join("\n\n");
    let mut operation = OperationBuilder::new()
        .operation_id(Some(doc.id))
        .tag(doc.tag)
        .summary(Some(doc.title))
        .description(Some(about.trim()))
        .parameters(Some(parameters(route)))
        .request_body(doc.body.as_ref().map(request_body))
        .securities(Some(security(route)));
    let mut responses = ResponsesBuilder::new();
    for answer in doc.answers {
        responses = responses.response(answer.status.to_string(), success_response(route, answer));
    }
    for (status, codes) in error_codes(route) {
        responses = responses.response(status.to_string(), error_response(route, status, &codes));
    }
    operation = operation.responses(responses.build());
    operation.build()
}

fn needs(route: &Route) -> String {
    match route.access {
        Access::Open => "Open without a credential.".into(),
        Access::Right(right) => format!("Needs the scope `{right}`."),
        Access::Signed(right) => format!("Needs the scope `{right}`, or a signed address."),
    }
}

fn security(route: &Route) -> Vec<SecurityRequirement> {
    let bearer = |right: engine::Right| SecurityRequirement::new(BEARER, [right.as_str()]);
    match route.access {
        Access::Open => Vec::new(),
        Access::Right(right) => vec![bearer(right)],
        Access::Signed(right) => {
            vec![bearer(right), SecurityRequirement::new::<_, [&str; 0], &str>(SIGNED, [])]
        }
    }
}

const BEARER: &str = "bearer";
const SIGNED: &str = "signedAddress";

fn parameters(route: &Route) -> Vec<Parameter> {
    let own = route.doc.parameters.iter();
    let correlation = Some(&CORRELATION)
        .filter(|correlation| !own.clone().any(|own| own.name == correlation.name));
    path_parameter(route).into_iter().chain(own.chain(correlation).map(parameter)).collect()
}

/// The one variable segment of the path.
fn path_parameter(route: &Route) -> Option<Parameter> {
    let (_, rest) = route.path.split_once('{')?;
    let (name, _) = rest.split_once('}')?;
    let (rule, meaning, example) = match (name, route.path.starts_with("/api/keys")) {
        ("id", true) => {
            (FieldRule::Form("^[0-9a-f]{16}$"), "the id of the key", "5d1a0c7e9b3f2486")
        }
        ("id", false) => {
            (FieldRule::Id, "the id of the job", "01a1e17f-dec5-7ff8-81e3-73a73ebb528a")
        }
        ("code", _) => (FieldRule::Form(CODE_FORM), "the code", "LEASE_LOST"),
        _ => (FieldRule::Form(LOWER_NAME), "the job type", "email"),
    };
    let mut text = Object::with_type(Type::String);
    constrain(&mut text, rule);
    text.examples = vec![example.into()];
    let parameter = ParameterBuilder::new().name(name).parameter_in(ParameterIn::Path);
    let parameter = parameter.required(Required::True).description(Some(meaning));
    Some(parameter.schema(Some(Schema::Object(text))).build())
}

fn parameter(param: &Param) -> Parameter {
    let location = match param.location {
        ParamLocation::Query => ParameterIn::Query,
        ParamLocation::Header => ParameterIn::Header,
    };
    let parameter = ParameterBuilder::new().name(param.name).parameter_in(location);
    let parameter = parameter.required(Required::False).description(Some(param.meaning));
    parameter.schema(Some(kind(param.kind))).build()
}

fn kind(kind: Kind) -> Schema {
    let (of_type, rule) = match kind {
        Kind::Text(rule) => (Type::String, rule),
        Kind::Number(min, max) => (Type::Integer, FieldRule::Range(min, max)),
        Kind::Flag => (Type::Boolean, FieldRule::Any),
    };
    let mut object = Object::with_type(of_type);
    constrain(&mut object, rule);
    Schema::Object(object)
}

fn request_body(body: &Body) -> RequestBody {
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name((body.shape.name)())));
    let content = content.example(Some(read(body.example)));
    let required = if body.optional { Required::False } else { Required::True };
    RequestBodyBuilder::new()
        .content("application/json", content.build())
        .required(Some(required))
        .build()
}

fn read(example: &str) -> Value {
    serde_json::from_str(example).expect("a test reads every example")
}

fn success_response(route: &Route, answer: &ResponseDoc) -> Response {
    let mut response = ResponseBuilder::new().description(answer.meaning);
    for representation in answer.representations() {
        let content = ContentBuilder::new()
            .schema(Some(schema(&representation)))
            .example(example(&representation));
        response = response.content(representation.media, content.build());
    }
    // The one answer that names a single job links to all routes about that job.
    if (route.method, route.path) == ("POST", "/api/jobs") {
        for next in ROUTES.iter().filter(|next| next.path.starts_with("/api/jobs/{id}")) {
            let link = LinkBuilder::new().operation_id(next.doc.id);
            let link = link.parameter("id", "$response.body#/jobId");
            response = response.link(next.doc.id, link.build());
        }
    }
    with_headers(response, shared_headers(route).chain(answer.headers)).build()
}

const JSON: &str = "application/json";
const PROBLEM: &str = "application/problem+json";

fn example(representation: &Representation) -> Option<Value> {
    let is_page = representation.shape.is_some_and(|shape| shape.is_page);
    match (representation.media, representation.example) {
        (_, "") => None,
        (JSON, item) if is_page => Some(json!({ "items": [read(item)], "nextCursor": null })),
        (JSON, text) => Some(read(text)),
        (_, text) => Some(text.into()),
    }
}

fn schema(representation: &Representation) -> RefOr<Schema> {
    match (representation.shape, representation.media) {
        (Some(shape), _) => Ref::from_schema_name(name(shape)).into(),
        (None, JSON) => Schema::Object(Object::with_type(Type::Object)).into(),
        (None, _) => Schema::Object(Object::with_type(Type::String)).into(),
    }
}

fn name(shape: Shape) -> String {
    let name = (shape.name)();
    if shape.is_page { format!("{name}Page") } else { name.into() }
}

/// The headers of every answer of a route.
fn shared_headers(route: &Route) -> impl Iterator<Item = &'static Param> {
    let limited = route.access != Access::Open && !route.is_report();
    [&CORRELATED, &CACHE_CONTROL].into_iter().chain(RATE.iter().filter(move |_| limited))
}

fn with_headers<'a>(
    mut response: ResponseBuilder,
    headers: impl Iterator<Item = &'a Param>,
) -> ResponseBuilder {
    for header in headers {
        let reference = format!("#/components/headers/{}", header.name);
        response = response.header_ref(header.name, Ref::new(reference));
    }
    response
}

/// An error response, with the codes that it may carry.
fn error_response(route: &Route, status: u16, codes: &BTreeSet<&'static str>) -> Response {
    let descriptions = codes.iter().filter_map(|code| entry(code));
    let descriptions =
        descriptions.map(|of| format!("[`{0}`](/errors/{0}): {1}", of.code, of.title));
    let example = |code| Ref::new(format!("#/components/examples/{code}"));
    let examples = codes.iter().map(|code| (*code, RefOr::<Example>::Ref(example(code))));
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem")));
    let content = content.examples_from_iter(examples);
    let own: &[Param] = match status {
        401 => &[CHALLENGE],
        429 | 503 => &[RETRY_AFTER],
        _ => &[],
    };
    let response =
        ResponseBuilder::new().description(descriptions.collect::<Vec<_>>().join("\n\n"));
    with_headers(response.content(PROBLEM, content.build()), shared_headers(route).chain(own))
        .build()
}

/// All error codes of a route, by status.
fn error_codes(route: &Route) -> BTreeMap<u16, BTreeSet<&'static str>> {
    let mut all: BTreeMap<u16, BTreeSet<&'static str>> = BTreeMap::new();
    for code in route.doc.codes.iter().copied().chain(common_codes(route)) {
        let status = entry(code).and_then(|entry| entry.http_status);
        all.entry(status.expect("a route answers codes with a status")).or_default().insert(code);
    }
    all
}

/// The error codes that every route of this kind may answer with.
fn common_codes(route: &Route) -> Vec<&'static str> {
    let mut all = vec![codes::HEADERS_TOO_LARGE, codes::INTERNAL, codes::MALFORMED_REQUEST];
    if route.access != Access::Open {
        all.extend([codes::UNAUTHENTICATED, codes::FORBIDDEN, codes::NOT_ACCEPTABLE]);
        all.extend([codes::ISSUER_UNAVAILABLE, codes::STORE_UNAVAILABLE, codes::STORE_DAMAGED]);
        all.push("INVALID_FIELD"); // a query that cannot be parsed
        if !route.is_report() {
            all.push(codes::RATE_LIMITED);
        }
    }
    if route.method != "GET" {
        all.extend([codes::STORE_FULL, codes::OUTCOME_UNKNOWN]);
        // A route that takes no body still reads one, and refuses its fields.
        all.extend([codes::MALFORMED_BODY, codes::BODY_TOO_LARGE, codes::REQUEST_TIMEOUT]);
        all.extend([codes::UNSUPPORTED_MEDIA_TYPE, codes::OVERLOADED]);
    }
    if route.path.starts_with("/api/jobs/{id}") {
        all.push("JOB_NOT_FOUND");
    }
    all
}

fn components() -> Components {
    let mut components = Components::new();
    components.schemas = shapes();
    for header in headers() {
        let mut of = HeaderDoc::new(kind(header.kind));
        of.description = Some(header.meaning.into());
        components.headers.insert(header.name.into(), of.into());
    }
    for of in CATALOGUE.iter().filter(|of| of.http_status.is_some()) {
        let value = json!({
            "type": format!("/errors/{}", of.code), "title": of.title, "status": of.http_status,
            "detail": of.meaning, "errorCode": of.code,
            "correlationId": "c463928a-6352-45f4-ad04-57fb9f9a26e6",
        });
        let example = ExampleBuilder::new().summary(of.title).value(Some(value)).build();
        components.examples.insert(of.code.into(), example.into());
    }
    let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer);
    let bearer =
        bearer.description(Some("an API key (`csk_…`), or a JWT of the issuer that is set"));
    components.add_security_scheme(BEARER, SecurityScheme::Http(bearer.build()));
    let about = "the signature of an address that was made with `withSignedUrl`: it opens one job's status and events";
    let signed = ApiKey::Query(ApiKeyValue::with_description("sig", about));
    components.add_security_scheme(SIGNED, SecurityScheme::ApiKey(signed));
    components
}

fn headers() -> impl Iterator<Item = &'static Param> {
    let own = ROUTES.iter().flat_map(|route| route.doc.answers).flat_map(|answer| answer.headers);
    own.chain([&CORRELATED, &CACHE_CONTROL, &CHALLENGE, &RETRY_AFTER, &ETAG]).chain(&RATE)
}

/// The schemas of all requests and answers.
fn shapes() -> Shapes {
    let (mut all, mut request_shapes) = (Shapes::new(), Shapes::new());
    for route in ROUTES {
        if let Some(body) = &route.doc.body {
            collect(body.shape, &mut request_shapes);
        }
        let representations = route.doc.answers.iter().filter_map(|answer| answer.representation);
        representations
            .filter_map(|representation| representation.shape)
            .for_each(|shape| collect(shape, &mut all));
    }
    collect(Shape::of::<Problem>(), &mut all);
    let names: BTreeSet<String> = request_shapes.keys().cloned().collect();
    all.extend(request_shapes);
    let mut shapes = with_rules(all, &names);
    let bodies = ROUTES.iter().filter_map(|route| route.doc.body.as_ref());
    for body in bodies.filter(|body| body.is_setting) {
        // Shapes within it are shared with answers, whose readers should be tolerant.
        if let Some(RefOr::T(Schema::Object(object))) = shapes.get_mut(&*(body.shape.name)()) {
            object.additional_properties = Some(Box::new(AdditionalProperties::FreeForm(false)));
        }
    }
    shapes
}

fn collect(shape: Shape, shapes: &mut Shapes) {
    let mut within = vec![((shape.name)().into_owned(), (shape.schema)())];
    (shape.within)(&mut within);
    shapes.extend(within);
    if shape.is_page {
        shapes.insert(name(shape), page(&(shape.name)()).into());
    }
}

fn page(of: &str) -> Schema {
    let cursor = SchemaType::Array(vec![Type::String, Type::Null]);
    let items = ArrayBuilder::new().items(Ref::from_schema_name(of));
    let cursor = ObjectBuilder::new().schema_type(cursor);
    Schema::Object(
        ObjectBuilder::new().property("items", items).property("nextCursor", cursor).build(),
    )
}
