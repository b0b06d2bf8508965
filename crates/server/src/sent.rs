//! Reads what a client sent: bodies within their limits, queries without surprises, ids from the path.

use crate::{Door, no::No};
use axum::{
    body::Body,
    extract::{FromRequest, FromRequestParts, Path, Request},
    http::{HeaderMap, header, request::Parts},
};
use bytes::{Bytes, BytesMut};
use engine::{FieldProblem, JobId, JobType, Refusal};
use http_body::Body as _;
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;
use std::{collections::BTreeMap, time::Duration};
use tokio::sync::OwnedSemaphorePermit;
use wire::codes;

/// A JSON body of ordinary size.
pub(crate) struct Sent<T>(pub(crate) T);

/// A JSON body that may be missing: then everything is as by default.
pub(crate) struct SentOrNothing<T>(pub(crate) T);

/// A JSON body that holds many things, and its room in memory until all of them are dealt with.
pub(crate) struct SentPage<T>(pub(crate) T, pub(crate) Option<Room>);

/// A share of the memory for large bodies.
pub(crate) type Room = OwnedSemaphorePermit;

/// A page of workers' reports: never held up by other large bodies.
pub(crate) struct SentReport<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<Door> for Sent<T> {
    type Rejection = No;

    async fn from_request(request: Request, door: &Door) -> Result<Self, No> {
        let (bytes, _) = read(request, door, Kind::Ordinary).await?;
        Ok(Sent(wire::read(&bytes)?))
    }
}

impl<T: DeserializeOwned + Default> FromRequest<Door> for SentOrNothing<T> {
    type Rejection = No;

    async fn from_request(request: Request, door: &Door) -> Result<Self, No> {
        let (bytes, _) = read(request, door, Kind::Ordinary).await?;
        if bytes.is_empty() {
            return Ok(SentOrNothing(T::default()));
        }
        Ok(SentOrNothing(wire::read(&bytes)?))
    }
}

impl<T: DeserializeOwned> FromRequest<Door> for SentPage<T> {
    type Rejection = No;

    async fn from_request(request: Request, door: &Door) -> Result<Self, No> {
        let (bytes, room) = read(request, door, Kind::Page).await?;
        Ok(SentPage(wire::read(&bytes)?, room))
    }
}

impl<T: DeserializeOwned> FromRequest<Door> for SentReport<T> {
    type Rejection = No;

    async fn from_request(request: Request, door: &Door) -> Result<Self, No> {
        let (bytes, _) = read(request, door, Kind::Report).await?;
        Ok(SentReport(wire::read(&bytes)?))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Ordinary,
    Page,
    Report,
}

/// Smaller bodies are not counted: a connection's own buffers are as large.
const UNCOUNTED_BYTES: usize = 64 * 1024;
/// How long a large body waits until others have been read.
const ROOM_WAIT: Duration = Duration::from_secs(5);

async fn read(request: Request, door: &Door, kind: Kind) -> Result<(Bytes, Option<Room>), No> {
    let limits = &door.settings.limits;
    let bytes_max = match kind {
        Kind::Ordinary => limits.body_bytes_max,
        Kind::Page | Kind::Report => limits.page_bytes_max,
    };
    let (parts, body) = request.into_parts();
    let announced = announced(&body);
    let welcome = match announced {
        Some(0) => Ok(()),
        Some(bytes) if bytes > bytes_max => Err(too_large(bytes_max)),
        Some(_) | None => check_kind(&parts.headers),
    };
    if let Err(no) = welcome {
        let_pass(&parts.headers, body).await;
        return Err(no);
    }
    let bytes = announced.unwrap_or(bytes_max);
    let room = match kind {
        Kind::Ordinary | Kind::Page if bytes > UNCOUNTED_BYTES => Some(room(door, bytes).await?),
        Kind::Ordinary | Kind::Page | Kind::Report => None,
    };
    let whole = tokio::time::timeout(limits.body_timeout, gather(body, bytes_max)).await;
    let whole = whole.unwrap_or_else(|_| {
        let detail = format!("the body did not come within {} s", limits.body_timeout.as_secs());
        Err(No::stated(codes::REQUEST_TIMEOUT, detail))
    });
    Ok((whole?, room))
}

/// Bytes that are read of a body which nobody wants. Many clients send all before they listen, and would
/// only see that the connection was cut.
const UNWANTED_BYTES_MAX: usize = 8 * 1024 * 1024;
const UNWANTED_TIME_MAX: Duration = Duration::from_secs(2);

/// Reads a body to its end, within bounds, and keeps nothing of it. Whoever asks before it sends is not told
/// to go on.
pub(crate) async fn let_pass(headers: &HeaderMap, mut body: Body) {
    if headers.contains_key(header::EXPECT) {
        return;
    }
    let to_its_end = async {
        let mut left = UNWANTED_BYTES_MAX;
        while let Some(Ok(frame)) = body.frame().await {
            let bytes = frame.data_ref().map_or(0, Bytes::len);
            let Some(rest) = left.checked_sub(bytes) else { break };
            left = rest;
        }
    };
    // Whoever is slow about it is cut off.
    drop(tokio::time::timeout(UNWANTED_TIME_MAX, to_its_end).await);
}

/// How long the body will be, where that is known. The body is asked and not the headers: it is what will be read,
/// whatever they say.
fn announced(body: &Body) -> Option<usize> {
    body.size_hint().exact().map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX))
}

/// Room in memory for a large body.
async fn room(door: &Door, bytes: usize) -> Result<Room, No> {
    let kibs = u32::try_from(bytes.div_ceil(1_024)).unwrap_or(u32::MAX);
    let kibs = kibs.min(door.bodies_kib_max);
    let waited =
        tokio::time::timeout(ROOM_WAIT, door.bodies.clone().acquire_many_owned(kibs)).await;
    match waited {
        Ok(Ok(permit)) => Ok(permit),
        Ok(Err(_)) | Err(_) => {
            let no = No::stated(codes::OVERLOADED, "too many large bodies are being sent at once");
            Err(No::Later(Box::new(no), ROOM_WAIT))
        }
    }
}

fn check_kind(headers: &HeaderMap) -> Result<(), No> {
    let Some(kind) = headers.get(header::CONTENT_TYPE) else { return Ok(()) };
    let kind = kind.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    let kind = kind.to_ascii_lowercase();
    if kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json")) {
        return Ok(());
    }
    Err(No::stated(
        codes::UNSUPPORTED_MEDIA_TYPE,
        "the body must be JSON, sent with Content-Type: application/json",
    ))
}

async fn gather(mut body: Body, bytes_max: usize) -> Result<Bytes, No> {
    let mut whole = BytesMut::new();
    let mut first: Option<Bytes> = None;
    while let Some(frame) = body.frame().await {
        let broken = |_| No::stated(codes::MALFORMED_BODY, "the body ended before it was complete");
        let Ok(data) = frame.map_err(broken)?.into_data() else { continue };
        let held = whole.len() + first.as_ref().map_or(0, Bytes::len);
        if held + data.len() > bytes_max {
            return Err(too_large(bytes_max));
        }
        // Most bodies come in one piece, and are never copied.
        if whole.is_empty() && first.is_none() {
            first = Some(data);
            continue;
        }
        if let Some(first) = first.take() {
            whole.extend_from_slice(&first);
        }
        whole.extend_from_slice(&data);
    }
    Ok(first.unwrap_or_else(|| whole.freeze()))
}

fn too_large(bytes_max: usize) -> No {
    No::stated(codes::BODY_TOO_LARGE, format!("the body has more than {bytes_max} bytes"))
}

/// A job's id from the path. What is no id names no job.
pub(crate) struct Id(pub(crate) JobId);

impl FromRequestParts<Door> for Id {
    type Rejection = No;

    async fn from_request_parts(parts: &mut Parts, door: &Door) -> Result<Self, No> {
        let text = segment(parts, door).await;
        JobId::parse(&text).map(Id).map_err(|_| No::Refused(Refusal::JobNotFound))
    }
}

/// A job type from the path.
pub(crate) struct Type(pub(crate) JobType);

impl FromRequestParts<Door> for Type {
    type Rejection = No;

    async fn from_request_parts(parts: &mut Parts, door: &Door) -> Result<Self, No> {
        Ok(Type(JobType::parse(&segment(parts, door).await)?))
    }
}

/// The one segment of the path that is not fixed, as it came.
pub(crate) struct Segment(pub(crate) String);

impl FromRequestParts<Door> for Segment {
    type Rejection = No;

    async fn from_request_parts(parts: &mut Parts, door: &Door) -> Result<Self, No> {
        Ok(Segment(segment(parts, door).await))
    }
}

/// What cannot be decoded fits nothing.
async fn segment(parts: &mut Parts, door: &Door) -> String {
    let read = Path::<String>::from_request_parts(parts, door).await;
    read.map(|Path(text)| text).unwrap_or_default()
}

/// The parameters of the query, each given once.
#[derive(Debug, Default)]
pub(crate) struct Params(BTreeMap<String, String>);

impl<S: Sync> FromRequestParts<S> for Params {
    type Rejection = No;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, No> {
        Params::of(parts.uri.query())
    }
}

impl Params {
    /// Reads a query. Unknown parameters are ignored, like unknown fields.
    pub(crate) fn of(query: Option<&str>) -> Result<Self, No> {
        let Some(query) = query else { return Ok(Params::default()) };
        let pairs: Vec<(String, String)> = serde_urlencoded::from_str(query)
            .map_err(|_| No::stated("INVALID_FIELD", "the query is not form-encoded"))?;
        let mut params = BTreeMap::new();
        for (name, value) in pairs {
            if params.insert(name, value).is_some() {
                return Err(No::stated("INVALID_FIELD", "a parameter is given twice"));
            }
        }
        Ok(Params(params))
    }

    /// Refuses what a list does not know: a condition that is misspelt would be none.
    pub(crate) fn only(&self, known: &[&str]) -> Result<(), No> {
        match self.0.keys().find(|name| !known.contains(&name.as_str())) {
            None => Ok(()),
            Some(_) => {
                let detail = format!("the parameters here are {}", known.join(", "));
                Err(No::stated("INVALID_FIELD", detail))
            }
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// `true`, `false`, or absent, which is false.
    pub(crate) fn flag(&self, name: &'static str) -> Result<bool, No> {
        match self.get(name) {
            None | Some("false" | "0") => Ok(false),
            Some("true" | "1" | "") => Ok(true),
            Some(_) => Err(FieldProblem::new(name, "must be true or false").into()),
        }
    }

    /// A whole number, if it is given.
    pub(crate) fn number(&self, name: &'static str) -> Result<Option<i64>, No> {
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
    fn a_body_that_says_nothing_of_its_length_may_be_of_any() {
        let pieces = stream::iter([Ok::<_, Infallible>(Bytes::from_static(b"{}"))]);
        assert_eq!(announced(&Body::from_stream(pieces)), None);
        assert_eq!(announced(&Body::empty()), Some(0));
        assert_eq!(announced(&Body::from("{}")), Some(2));
    }
}
