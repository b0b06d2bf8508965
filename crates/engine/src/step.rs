//! Steps: parts of a job that complete once, however often the job is tried.

use crate::{field::Checked, json::JsonText, text::StepName, time::Timestamp};

/// A step's result is small; what is large goes somewhere else.
pub const STEP_RESULT_BYTES_MAX: usize = 16 * 1024;

/// A job may have this many steps.
pub const STEPS_MAX: u64 = 1_000;

/// What is remembered of one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its name within the job.
    pub name: StepName,
    /// When it was first begun.
    pub begun_at: Timestamp,
    /// Its result, once it is done.
    pub result: Option<JsonText>,
}

/// What a handler learns of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepAnswer {
    /// Nobody has begun it before.
    New,
    /// It was begun before, and nobody knows how far it came: the handler decides.
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
