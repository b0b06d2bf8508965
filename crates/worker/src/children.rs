//! How the children of a job ended.

use crate::fail::Fail;
use engine::{JobId, JobType, JsonText, Status};
use serde::de::DeserializeOwned;

/// A child of a job, as the handler of its parent sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Child {
    /// Its id.
    pub id: JobId,
    /// Its type.
    pub job_type: JobType,
    /// What it is about.
    pub subject: Option<String>,
    /// Its idempotency key.
    pub key: Option<String>,
    /// How it ended.
    pub status: Status,
    /// The code of its last failure; none after success.
    pub error_code: Option<String>,
    /// The message of its last failure.
    pub error_message: Option<String>,
    /// Its handler's sentence for people.
    pub message: Option<String>,
    /// Where a large result can be fetched.
    pub result_url: Option<String>,
    pub(crate) result: Option<JsonText>,
}

impl Child {
    /// Whether it did its work. Any other ending is for the handler of the parent to judge.
    pub fn is_completed(&self) -> bool {
        self.status == Status::Completed
    }

    /// The result of a completed child, as its handler returned it.
    pub fn result<T: DeserializeOwned>(&self) -> Result<T, Fail> {
        let result = self.result.as_ref().map_or("null", JsonText::as_str);
        serde_json::from_str(result).map_err(|error| {
            let detail = format!("the result of child {} cannot be read: {error}", self.id);
            Fail::for_good("CHILD_RESULT", detail)
        })
    }
}
