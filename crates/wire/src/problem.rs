//! Problem details (RFC 9457): the body of every error response.

use crate::{
    body::Unreadable,
    catalogue::{CodeEntry, codes, entry},
    filter::FilterError,
};
use engine::{CorrelationId, JobId, Refusal};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An error response, with its code, its reason, and the fields that are wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// The URL of the code's explanation.
    #[serde(rename = "type")]
    pub kind: String,
    /// The catalogue's title of the code.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What happened this time.
    pub detail: String,
    /// The stable code.
    pub error_code: String,
    /// The correlation id under which the logs have the request.
    pub correlation_id: String,
    /// The job that may have been stored, where the outcome is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_id: Option<String>,
    /// The fields that are wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
}

/// One field that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FieldError {
    /// Where it is in what was sent, as a JSON pointer.
    pub pointer: String,
    /// What is wrong, and what would be right.
    pub detail: String,
}

impl Problem {
    /// A problem with a code of the catalogue. `detail` must hold neither payloads nor secrets.
    pub fn new(code: &str, detail: impl Into<String>, correlation: &CorrelationId) -> Self {
        let catalogue_entry = entry_of(code);
        Problem {
            kind: format!("/errors/{}", catalogue_entry.code),
            title: catalogue_entry.title.into(),
            // A code without a status should never reach a client: that is a bug of the server.
            status: catalogue_entry.http_status.unwrap_or(500),
            detail: detail.into(),
            error_code: catalogue_entry.code.into(),
            correlation_id: correlation.to_string(),
            job_id: None,
            errors: Vec::new(),
        }
    }

    /// The problem for a refusal of the engine.
    pub fn refused(refusal: &Refusal, correlation: &CorrelationId) -> Self {
        let errors = field_errors(refusal);
        Problem { errors, ..Problem::new(refusal.code(), refusal.to_string(), correlation) }
    }

    /// The problem for a body that could not be read.
    pub fn unreadable(body: &Unreadable, correlation: &CorrelationId) -> Self {
        let Some(pointer) = body.pointer.clone() else {
            return Problem::new(body.code(), format!("the body {}", body.detail), correlation);
        };
        let detail = match pointer.is_empty() {
            true => format!("the item {}", body.detail),
            false => format!("{pointer}: {}", body.detail),
        };
        let errors = vec![FieldError { pointer, detail: body.detail.clone() }];
        Problem { errors, ..Problem::new(body.code(), detail, correlation) }
    }

    /// The problem for an invalid filter. In the query and in the body, it has the same name.
    pub fn filter(error: &FilterError, correlation: &CorrelationId) -> Self {
        let detail = error.to_string();
        let detail_of_filter = format!("the filter {detail}");
        let errors = vec![FieldError { pointer: "/filter".into(), detail }];
        Problem { errors, ..Problem::new(error.code, detail_of_filter, correlation) }
    }

    /// Names the job of this problem.
    pub fn about(self, job_id: JobId) -> Self {
        Problem { job_id: Some(job_id.to_string()), ..self }
    }
}

fn entry_of(code: &str) -> &'static CodeEntry {
    let internal = || entry(codes::INTERNAL).expect("a test finds every code of ours in the table");
    entry(code).unwrap_or_else(internal)
}

/// The fields of a refusal, with pointers into what was sent.
fn field_errors(refusal: &Refusal) -> Vec<FieldError> {
    let mut errors: Vec<FieldError> = Vec::new();
    let mut prefix = String::new();
    let mut innermost = refusal;
    while let Refusal::Item { index, refusal } = innermost {
        prefix.push_str(&format!("/jobs/{index}"));
        innermost = refusal;
    }
    for problem in innermost.problems() {
        let field = problem.field.replace('.', "/");
        let pointer = format!("{prefix}/{field}{}", problem.within);
        errors.push(FieldError { pointer, detail: problem.detail.clone() });
    }
    // Also without a wrong field, the client must learn which of its jobs was refused.
    if errors.is_empty() && !prefix.is_empty() {
        errors.push(FieldError { pointer: prefix, detail: innermost.to_string() });
    }
    errors
}
