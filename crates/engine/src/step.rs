//! Steps: parts of a job that complete once, however often the job is tried.

use crate::{
    command::{Answer, Decided, Decision, Effect, Facts},
    decide::held,
    field::Checked,
    job::{Change, Job},
    json::JsonText,
    lease::LeaseToken,
    refusal::Refusal,
    text::StepName,
    time::Timestamp,
};

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

pub(crate) fn begin(job: &Job, token: &LeaseToken, name: &StepName, facts: &Facts<'_>) -> Decision {
    held(job, token, facts).ok_or(Refusal::LeaseLost)?;
    match facts.step {
        Some(Step { result: Some(result), .. }) => Ok(stands(StepAnswer::Done(result.clone()))),
        // Also when the same attempt asks again: it may have lost our answer, or have died in the
        // middle of the step and come back under its lease. Only the handler can find out.
        Some(_) => Ok(stands(StepAnswer::Unfinished)),
        None if facts.steps >= STEPS_MAX => Err(Refusal::StepLimit { steps_max: STEPS_MAX }),
        None => {
            let step = Step { name: name.clone(), begun_at: facts.now, result: None };
            Ok(put(job, step, StepAnswer::New))
        }
    }
}

pub(crate) fn finish(
    job: &Job,
    token: &LeaseToken,
    result: &JsonText,
    facts: &Facts<'_>,
) -> Decision {
    held(job, token, facts).ok_or(Refusal::LeaseLost)?;
    let step = facts.step.ok_or(Refusal::StepNotBegun)?;
    // A step completes once: whoever comes second learns what stands.
    if let Some(first) = &step.result {
        return Ok(stands(StepAnswer::Done(first.clone())));
    }
    let step = Step { result: Some(result.clone()), ..step.clone() };
    Ok(put(job, step, StepAnswer::Done(result.clone())))
}

fn stands(answer: StepAnswer) -> Decided {
    Decided { effect: Effect::Nothing, answer: Answer::Step(answer) }
}

fn put(job: &Job, step: Step, answer: StepAnswer) -> Decided {
    let change = Change { steps: StepsChange::Put(step), ..Job::touched(job.clone()) };
    Decided { effect: Effect::Change(Box::new(change)), answer: Answer::Step(answer) }
}
