//! Reads requests: bodies within their limits, queries without surprises, ids from the path.

use crate::{
    AppState,
    auth::{Caller, PresentedCredential},
    body_budget::{BodyBudget, BodyPermit},
    error::ApiError,
};
use axum::{
    body::Body,
    extract::{FromRequest, FromRequestParts, Path, Request},
    http::{HeaderMap, HeaderValue, header, request::Parts},
};
use bytes::{Bytes, BytesMut};
use engine::{FieldProblem, JobId, JobType, Refusal};
use http_body::Body as _;
use http_body_util::BodyExt;
use outbound::is_json;
use platform::Credentials;
use serde::{Deserialize, de::DeserializeOwned};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::time::{Instant, timeout};
use wire::{SettingBody, codes};

/// Declares a JSON body of one kind. The body holds its memory permit until it is dropped.
macro_rules! json_body {
    ($(#[$doc:meta])* $name:ident, $kind:expr) => {
        $(#[$doc])*
        pub(crate) struct $name<T>(pub(crate) T, pub(crate) Option<BodyPermit>);

        impl<T: DeserializeOwned> FromRequest<AppState> for $name<T> {
            type Rejection = ApiError;

            async fn from_request(request: Request, app: &AppState) -> Result<Self, ApiError> {
                let (bytes, permit) = read(request, app, $kind).await?;
                Ok($name(wire::read(&bytes)?, permit))
            }
        }
    };
}

json_body!(
    /// A body of ordinary size.
    JsonBody, Kind::Ordinary
);
json_body!(
    /// A body that holds many items.
    PageBody, Kind::Page
);
json_body!(
    /// A page of workers' reports. It has a budget of its own, so that clients' large bodies never
    /// delay it.
    ReportBody, Kind::Report
);

/// A JSON body that sets something: unknown fields are refused.
pub(crate) struct SettingsBody<T>(pub(crate) T);

/// A JSON body that sets something and may be missing: then all fields have their defaults.
pub(crate) struct OptionalSettingsBody<T>(pub(crate) T);

/// An object without fields. A route without settings reads its body as this type: a caller that
/// sends a field (`{"dryRun": true}`) gets a refusal, and nothing is done.
#[derive(Default, Deserialize)]
#[serde(expecting = "an object")]
pub(crate) struct NoFields {}

impl SettingBody for NoFields {}

impl<T: SettingBody> FromRequest<AppState> for SettingsBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &AppState) -> Result<Self, ApiError> {
        let (bytes, _permit) = read(request, app, Kind::Ordinary).await?;
        Ok(SettingsBody(wire::read_setting(&bytes)?))
    }
}

impl<T: SettingBody + Default> FromRequest<AppState> for OptionalSettingsBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &AppState) -> Result<Self, ApiError> {
        let (bytes, _permit) = read(request, app, Kind::Ordinary).await?;
        let is_missing = bytes.is_empty();
        let read = if is_missing { T::default() } else { wire::read_setting(&bytes)? };
        Ok(OptionalSettingsBody(read))
    }
}

enum Kind {
    Ordinary,
    Page,
    Report,
}

/// Smaller bodies are not counted: a connection's own buffers are as large.
const UNCOUNTED_BYTES: usize = 64 * 1024;

async fn read(
    request: Request,
    app: &AppState,
    kind: Kind,
) -> Result<(Bytes, Option<BodyPermit>), ApiError> {
    let limits = &app.settings.limits;
    let (bytes_max, budget) = match kind {
        Kind::Ordinary => (limits.body_bytes_max, &app.bodies),
        Kind::Page => (limits.page_bytes_max, &app.bodies),
        Kind::Report => (limits.page_bytes_max, &app.reports),
    };
    let (parts, body) = request.into_parts();
    let declared_length = declared_length(&body);
    let acceptable = match declared_length {
        Some(0) => Ok(()),
        Some(bytes) if bytes > bytes_max => Err(too_large(bytes_max)),
        Some(_) | None => {
            check_content_type(&parts.headers).and_then(|()| check_encoding(&parts.headers))
        }
    };
    if let Err(error) = acceptable {
        discard_body(&parts.headers, body).await;
        return Err(error);
    }
    let caller = parts.extensions.get::<Caller>();
    let mut memory = BodyMemory {
        owner: caller.map(|caller| (budget, &caller.0.who)),
        bytes: UNCOUNTED_BYTES,
        permit: None,
    };
    let (started, credentials) = (Instant::now(), app.node.credentials());
    if let Some(bytes) = declared_length {
        memory.grow_to(bytes).await?;
    }
    let body_bytes = timeout(limits.body_timeout, read_to_end(body, bytes_max, &mut memory)).await;
    let body_bytes = body_bytes.map_err(|_| {
        let detail = format!("the body did not come within {} s", limits.body_timeout.as_secs());
        ApiError::with_code(codes::REQUEST_TIMEOUT, detail)
    })??;
    // A credential may end while the body of its request trickles in, or while it waits for memory.
    if started.elapsed() >= SLOW_BODY || !is_current(app, credentials.as_ref()) {
        PresentedCredential::with(&parts).check_still_valid(app).await?;
    }
    Ok((body_bytes, memory.permit))
}

/// Whether the node still acts by the same credentials as before.
fn is_current(app: &AppState, before: Option<&Arc<Credentials>>) -> bool {
    let now = app.node.credentials();
    before.zip(now.as_ref()).is_some_and(|(before, now)| Arc::ptr_eq(before, now))
}

/// The memory that one body has been given so far.
struct BodyMemory<'a> {
    /// `None` for a body without a caller, which is not counted.
    owner: Option<(&'a BodyBudget, &'a Arc<str>)>,
    bytes: usize,
    permit: Option<BodyPermit>,
}

impl BodyMemory<'_> {
    async fn grow_to(&mut self, bytes: usize) -> Result<(), ApiError> {
        let Some((budget, who)) = self.owner.filter(|_| bytes > self.bytes) else { return Ok(()) };
        match &mut self.permit {
            Some(permit) => budget.grow(who, permit, bytes).await?,
            None => self.permit = Some(budget.acquire(who, bytes).await?),
        }
        self.bytes = bytes;
        Ok(())
    }

    /// Makes sure that a body of `bytes` fits. A body without a length gets memory as it arrives,
    /// doubling each time: many clients send small reports without a length.
    async fn fit(&mut self, bytes: usize, bytes_max: usize) -> Result<(), ApiError> {
        if bytes <= self.bytes {
            return Ok(());
        }
        self.grow_to(bytes.next_power_of_two().min(bytes_max)).await
    }
}

/// For a body that takes this long, the credential is checked again.
const SLOW_BODY: Duration = Duration::from_secs(1);

/// How much of an unwanted body is read. Many clients send the whole body before they read the
/// answer. Cut off early, such a client would see only a broken connection.
const UNWANTED_BYTES_MAX: usize = 8 * 1024 * 1024;
const UNWANTED_TIME_MAX: Duration = Duration::from_secs(2);

/// Reads a body to its end, within bounds, and discards it. A client that sent `Expect` and waits
/// for `100 Continue` is not told to go on.
pub(crate) async fn discard_body(headers: &HeaderMap, mut body: Body) {
    if headers.contains_key(header::EXPECT) {
        return;
    }
    let read_all = async {
        let mut remaining = UNWANTED_BYTES_MAX;
        while let Some(Ok(frame)) = body.frame().await {
            let bytes = frame.data_ref().map_or(0, Bytes::len);
            let Some(rest) = remaining.checked_sub(bytes) else { break };
            remaining = rest;
        }
    };
    // A client that is slower than this is cut off.
    drop(timeout(UNWANTED_TIME_MAX, read_all).await);
}

/// The length of the body, where it is known. It is the length of the body that will be read,
/// whatever the headers claim.
fn declared_length(body: &Body) -> Option<usize> {
    body.size_hint().exact().map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX))
}

fn check_content_type(headers: &HeaderMap) -> Result<(), ApiError> {
    let Some(kind) = headers.get(header::CONTENT_TYPE) else { return Ok(()) };
    if is_json(kind.to_str().unwrap_or_default()) {
        return Ok(());
    }
    Err(ApiError::with_code(
        codes::UNSUPPORTED_MEDIA_TYPE,
        "the body must be JSON, sent with Content-Type: application/json",
    ))
}

/// Refuses compressed bodies: a compressed body could unpack to a thousand times its size.
fn check_encoding(headers: &HeaderMap) -> Result<(), ApiError> {
    let is_plain = |coding: &str| {
        let coding = coding.trim();
        coding.is_empty() || coding.eq_ignore_ascii_case("identity")
    };
    let plain = headers
        .get_all(header::CONTENT_ENCODING)
        .iter()
        .all(|value| value.to_str().is_ok_and(|value| value.split(',').all(is_plain)));
    if plain {
        return Ok(());
    }
    Err(ApiError::with_code(
        codes::UNSUPPORTED_MEDIA_TYPE,
        "the body must be sent as it is: no Content-Encoding but identity is taken",
    ))
}

async fn read_to_end(
    mut body: Body,
    bytes_max: usize,
    memory: &mut BodyMemory<'_>,
) -> Result<Bytes, ApiError> {
    let mut body_bytes = BytesMut::new();
    let mut first: Option<Bytes> = None;
    while let Some(frame) = body.frame().await {
        let incomplete =
            |_| ApiError::with_code(codes::MALFORMED_BODY, "the body ended before it was complete");
        let Ok(data) = frame.map_err(incomplete)?.into_data() else { continue };
        let received = body_bytes.len() + first.as_ref().map_or(0, Bytes::len);
        if received + data.len() > bytes_max {
            return Err(too_large(bytes_max));
        }
        memory.fit(received + data.len(), bytes_max).await?;
        // Most bodies come in one piece, and are never copied.
        if body_bytes.is_empty() && first.is_none() {
            first = Some(data);
            continue;
        }
        if let Some(first) = first.take() {
            body_bytes.extend_from_slice(&first);
        }
        body_bytes.extend_from_slice(&data);
    }
    Ok(first.unwrap_or_else(|| body_bytes.freeze()))
}

fn too_large(bytes_max: usize) -> ApiError {
    ApiError::with_code(codes::BODY_TOO_LARGE, format!("the body has more than {bytes_max} bytes"))
}

/// A job id from the path. Text that is no id names no job.
pub(crate) struct Id(pub(crate) JobId);

impl FromRequestParts<AppState> for Id {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self, ApiError> {
        let text = path_segment(parts, app).await;
        JobId::parse(&text).map(Id).map_err(|_| ApiError::Refused(Refusal::JobNotFound))
    }
}

/// A job type from the path.
pub(crate) struct Type(pub(crate) JobType);

impl FromRequestParts<AppState> for Type {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self, ApiError> {
        Ok(Type(JobType::parse(&path_segment(parts, app).await)?))
    }
}

/// The one variable segment of the path, as it came.
pub(crate) struct PathSegment(pub(crate) String);

impl FromRequestParts<AppState> for PathSegment {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self, ApiError> {
        Ok(PathSegment(path_segment(parts, app).await))
    }
}

/// A segment that cannot be decoded matches nothing.
async fn path_segment(parts: &mut Parts, app: &AppState) -> String {
    let read = Path::<String>::from_request_parts(parts, app).await;
    read.map(|Path(text)| text).unwrap_or_default()
}

/// Whether the header `If-None-Match` contains the quoted version `etag`.
pub(crate) fn matches_etag(if_none_match: &HeaderValue, etag: &str) -> bool {
    let Ok(tags) = if_none_match.to_str() else { return false };
    let is_same = |tag: &str| tag.trim().trim_start_matches("W/") == etag;
    tags.trim() == "*" || tags.split(',').any(is_same)
}

/// The parameters of the query, each given once.
#[derive(Debug, Default)]
pub(crate) struct QueryParams(BTreeMap<String, String>);

impl<S: Sync> FromRequestParts<S> for QueryParams {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        QueryParams::of(parts.uri.query())
    }
}

impl QueryParams {
    /// Parses a query. Unknown parameters are ignored, like unknown fields.
    pub(crate) fn of(query: Option<&str>) -> Result<Self, ApiError> {
        let Some(query) = query else { return Ok(QueryParams::default()) };
        let pairs: Vec<(String, String)> = serde_urlencoded::from_str(query)
            .map_err(|_| ApiError::with_code("INVALID_FIELD", "the query is not form-encoded"))?;
        let mut params = BTreeMap::new();
        for (name, value) in pairs {
            if params.insert(name, value).is_some() {
                return Err(ApiError::with_code("INVALID_FIELD", "a parameter is given twice"));
            }
        }
        Ok(QueryParams(params))
    }

    /// Refuses parameters that a list does not know. A misspelt condition would otherwise not
    /// restrict the list at all.
    pub(crate) fn refuse_unknown(&self, known: &[&str]) -> Result<(), ApiError> {
        if self.0.keys().all(|name| known.contains(&name.as_str())) {
            return Ok(());
        }
        let detail = format!("the parameters here are {}", known.join(", "));
        Err(ApiError::with_code("INVALID_FIELD", detail))
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// `true`, `false`, or absent, which is false.
    pub(crate) fn flag(&self, name: &'static str) -> Result<bool, ApiError> {
        match self.get(name) {
            None | Some("false" | "0") => Ok(false),
            Some("true" | "1" | "") => Ok(true),
            Some(_) => Err(FieldProblem::new(name, "must be true or false").into()),
        }
    }

    /// A whole number, if it is given.
    pub(crate) fn number(&self, name: &'static str) -> Result<Option<i64>, ApiError> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let number = text.parse();
        number.map(Some).map_err(|_| FieldProblem::new(name, "must be a whole number").into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::stream;
    use std::convert::Infallible;

    #[test]
    fn a_streamed_body_announces_no_length() {
        let pieces = stream::iter([Ok::<_, Infallible>(Bytes::from_static(b"{}"))]);
        assert_eq!(declared_length(&Body::from_stream(pieces)), None);
        assert_eq!(declared_length(&Body::empty()), Some(0));
        assert_eq!(declared_length(&Body::from("{}")), Some(2));
    }

    #[test]
    fn a_body_without_fields_must_be_an_empty_object() {
        assert!(wire::read_setting::<NoFields>(b"{}").is_ok());
        let Err(error) = wire::read_setting::<NoFields>(br#"{"dryRun": true}"#) else {
            panic!("a field was read")
        };
        assert_eq!(error.pointer.as_deref(), Some("/dryRun"));
        assert!(wire::read_setting::<NoFields>(b"[]").is_err());
        assert!(wire::read_setting::<NoFields>(b"null").is_err());
    }
}
