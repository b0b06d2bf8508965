//! Steps: parts of a job that complete once, however often the job is tried.

use crate::{field::Checked, json::JsonText, lease::LeaseToken, text::StepName, time::Timestamp};

/// A step's result is small; what is large goes somewhere else.
pub const STEP_RESULT_BYTES_MAX: usize = 16 * 1024;

/// What is remembered of one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its name within the job.
    pub name: StepName,
    /// The lease under which it was last begun.
    pub begun_by: LeaseToken,
    /// When.
    pub begun_at: Timestamp,
    /// Its result, once it is done.
    pub result: Option<JsonText>,
}

/// What a handler learns of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepAnswer {
    /// Nobody has begun it before this attempt.
    New,
    /// An earlier attempt began it, and nobody knows how far it came: the handler decides.
    Unfinished,
    /// It is done, with this result.
    Done(JsonText),
}

/// What a decision does to the steps of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepsChange {
    /// Nothing.
    Kept,
    /// This one is new or different.
    Put(Step),
    /// All are forgotten: a redrive that starts from nothing.
    Forgotten,
}

/// Checks the result of a step.
pub fn check_step_result(text: &str) -> Checked<JsonText> {
    JsonText::parse("result", text, STEP_RESULT_BYTES_MAX)
}
