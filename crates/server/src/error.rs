//! The server's errors: the one place where errors become responses.

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use engine::{CorrelationId, Denied, FieldProblem, JobId, Refusal};
use std::{error::Error as _, sync::Arc, time::Duration};
use store::StoreError;
use wire::{FilterError, Problem, Unreadable, codes, entry};

/// Why a request was not carried out.
#[derive(Debug)]
pub(crate) enum ApiError {
    /// The rules refuse the request.
    Refused(Refusal),
    /// The caller lacks a right.
    Denied(Denied),
    /// The server refuses the request under a code of its own.
    Code(&'static str, String),
    /// The body could not be read.
    Unreadable(Unreadable),
    /// The filter could not be parsed.
    Filter(FilterError),
    /// The store failed; nothing was done.
    Store(StoreError),
    /// The store failed, and whether the change was committed is unknown.
    OutcomeUnknown(Vec<JobId>, StoreError),
    /// The same request may succeed after the given time.
    RetryAfter(Box<ApiError>, Duration),
}

/// A handler's result.
pub(crate) type Reply<T> = Result<T, ApiError>;

/// The `Retry-After` of answers for which no better estimate exists.
const STORE_RETRY_AFTER: Duration = Duration::from_secs(1);

impl ApiError {
    /// A refusal by the server itself.
    pub(crate) fn with_code(code: &'static str, detail: impl Into<String>) -> Self {
        ApiError::Code(code, detail.into())
    }

    /// For a full queue, adds the estimate of when the queue has space again.
    pub(crate) fn retry_after_if_full(self, estimate: Duration) -> Self {
        let queue_is_full = matches!(&self, ApiError::Refused(refusal) if is_queue_full(refusal));
        if queue_is_full { ApiError::RetryAfter(Box::new(self), estimate) } else { self }
    }

    /// The problem document for the client. The log gets another sentence.
    pub(crate) fn problem(&self, correlation: &CorrelationId) -> Problem {
        match self {
            ApiError::Refused(refusal) => Problem::refused(refusal, correlation),
            ApiError::Denied(denied) => {
                Problem::new(codes::FORBIDDEN, denied.to_string(), correlation)
            }
            ApiError::Code(code, detail) => Problem::new(code, detail, correlation),
            ApiError::Unreadable(body) => Problem::unreadable(body, correlation),
            ApiError::Filter(error) => Problem::filter(error, correlation),
            ApiError::Store(error) => {
                let (code, detail) = store_failure(error);
                Problem::new(code, detail, correlation)
            }
            ApiError::OutcomeUnknown(jobs, _) => {
                let detail = "the store did not say whether it was done; send the same again";
                let problem = Problem::new(codes::OUTCOME_UNKNOWN, detail, correlation);
                match jobs[..] {
                    [job] => problem.about(job),
                    [..] => problem,
                }
            }
            ApiError::RetryAfter(error, _) => error.problem(correlation),
        }
    }

    /// Builds the response.
    pub(crate) fn respond(&self, correlation: &CorrelationId) -> Response {
        let problem = self.problem(correlation);
        let body = serde_json::to_vec(&problem).expect("a problem is texts and numbers");
        let status =
            StatusCode::from_u16(problem.status).expect("the catalogue has valid status codes");
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(after) = self.retry_after() {
            headers.insert(header::RETRY_AFTER, whole_seconds(after));
        }
        response
    }

    fn retry_after(&self) -> Option<Duration> {
        match self {
            ApiError::RetryAfter(_, after) => Some(*after),
            // Damaged data does not heal with time.
            ApiError::Store(StoreError::Damaged(_)) => None,
            ApiError::Store(_) | ApiError::OutcomeUnknown(..) => Some(STORE_RETRY_AFTER),
            ApiError::Refused(refusal) if is_queue_full(refusal) => Some(STORE_RETRY_AFTER),
            ApiError::Code(code, _) if is_temporary(code) => Some(STORE_RETRY_AFTER),
            ApiError::Refused(_)
            | ApiError::Denied(_)
            | ApiError::Code(..)
            | ApiError::Unreadable(_)
            | ApiError::Filter(_) => None,
        }
    }

    /// Logs what broke, with the whole chain of causes. A lawful refusal is not logged as an error.
    pub(crate) fn log(&self, correlation: &CorrelationId) {
        match self {
            ApiError::Store(error) | ApiError::OutcomeUnknown(_, error) => {
                let cause = error.source().map(ToString::to_string);
                tracing::error!(%correlation, %error, cause, "the store failed a request");
            }
            ApiError::RetryAfter(error, _) => error.log(correlation),
            ApiError::Refused(_)
            | ApiError::Denied(_)
            | ApiError::Code(..)
            | ApiError::Unreadable(_)
            | ApiError::Filter(_) => {}
        }
    }
}

fn is_queue_full(refusal: &Refusal) -> bool {
    refusal.code() == "QUEUE_FULL"
}

/// Whether the contract promises that the same request may succeed later.
fn is_temporary(code: &str) -> bool {
    entry(code).is_some_and(|entry| matches!(entry.http_status, Some(429 | 503)))
}

fn store_failure(error: &StoreError) -> (&'static str, &'static str) {
    match error {
        StoreError::Full(_) => (codes::STORE_FULL, "the store has no room left"),
        StoreError::Unavailable(_) => (codes::STORE_UNAVAILABLE, "the store cannot be reached"),
        StoreError::Damaged(_) => (codes::STORE_DAMAGED, "what the store holds here is damaged"),
        StoreError::OutcomeUnknown(_) => {
            (codes::OUTCOME_UNKNOWN, "whether it was done is not known")
        }
    }
}

/// Whole seconds, rounded up, at least one.
pub(crate) fn whole_seconds(span: Duration) -> HeaderValue {
    HeaderValue::from(span.as_millis().div_ceil(1_000).max(1) as u64)
}

impl From<platform::Error> for ApiError {
    fn from(error: platform::Error) -> Self {
        match error {
            platform::Error::Refused(refusal) => ApiError::Refused(refusal),
            platform::Error::Store(error) => ApiError::Store(error),
            platform::Error::OutcomeUnknown { jobs, source } => {
                ApiError::OutcomeUnknown(jobs, source)
            }
        }
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        platform::Error::from(error).into()
    }
}

impl From<FieldProblem> for ApiError {
    fn from(problem: FieldProblem) -> Self {
        ApiError::Refused(problem.into())
    }
}

macro_rules! from {
    ($($error:ident => $variant:ident),*) => {
        $(impl From<$error> for ApiError {
            fn from(error: $error) -> Self {
                ApiError::$variant(error)
            }
        })*
    };
}

from!(Refusal => Refused, Denied => Denied, Unreadable => Unreadable, FilterError => Filter);

/// Handlers do not know the request's correlation: the middleware adds it (`middleware.rs`).
impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = StatusCode::INTERNAL_SERVER_ERROR.into_response();
        response.extensions_mut().insert(PendingProblem(Arc::new(self)));
        response
    }
}

/// An error that waits for its correlation.
#[derive(Clone)]
pub(crate) struct PendingProblem(pub(crate) Arc<ApiError>);

#[cfg(test)]
mod tests {
    use super::*;
    use wire::CATALOGUE;

    #[test]
    fn every_429_and_503_response_has_retry_after() {
        let correlation = CorrelationId::parse("c").unwrap();
        let passing = CATALOGUE.iter().filter(|entry| matches!(entry.http_status, Some(429 | 503)));
        for entry in passing {
            let response = ApiError::with_code(entry.code, "no").respond(&correlation);
            assert!(response.headers().contains_key(header::RETRY_AFTER), "{}", entry.code);
        }
    }
}
