//! Steps: parts of a job that complete once, however many attempts the job takes.

use crate::{
    command::{Answer, Decided, Decision, Effect, Facts},
    decide::current_lease,
    field::Checked,
    job::{Change, Job},
    json::JsonText,
    lease::LeaseToken,
    refusal::Refusal,
    text::StepName,
    time::Timestamp,
};

/// A larger result is stored elsewhere.
pub const STEP_RESULT_BYTES_MAX: usize = 16 * 1024;

/// The most steps of one job.
pub const STEPS_MAX: u64 = 1_000;

/// What the store keeps of one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The name within the job.
    pub name: StepName,
    /// When the first attempt began it.
    pub begun_at: Timestamp,
    /// The result, once the step is done.
    pub result: Option<JsonText>,
}

/// The answer to a handler that begins or finishes a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepAnswer {
    /// No attempt has begun the step before.
    New,
    /// An attempt began the step, and how far it came is not known: the handler decides.
    Unfinished,
    /// The step is done, with this result.
    Done(JsonText),
}

/// What a decision does to the steps of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepsChange {
    /// Nothing.
    Unchanged,
    /// This step is new or changed.
    Put(Step),
    /// All steps are deleted: the redrive starts from the beginning.
    Cleared,
}

/// Checks the result of a step.
pub fn check_step_result(text: &str) -> Checked<JsonText> {
    JsonText::parse("result", text, STEP_RESULT_BYTES_MAX)
}

pub(crate) fn begin(job: &Job, token: &LeaseToken, name: &StepName, facts: &Facts<'_>) -> Decision {
    current_lease(job, token, facts).ok_or(Refusal::LeaseLost)?;
    match facts.step {
        Some(Step { result: Some(result), .. }) => Ok(unchanged(StepAnswer::Done(result.clone()))),
        // Also when the same attempt asks again: it may have lost the answer, or have died in the
        // middle of the step and returned under its lease. Only the handler can find out.
        Some(_) => Ok(unchanged(StepAnswer::Unfinished)),
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
    current_lease(job, token, facts).ok_or(Refusal::LeaseLost)?;
    let step = facts.step.ok_or(Refusal::StepNotBegun)?;
    // A step completes once: a second report gets the stored result.
    if let Some(first) = &step.result {
        return Ok(unchanged(StepAnswer::Done(first.clone())));
    }
    let step = Step { result: Some(result.clone()), ..step.clone() };
    Ok(put(job, step, StepAnswer::Done(result.clone())))
}

fn unchanged(answer: StepAnswer) -> Decided {
    Decided { effect: Effect::Nothing, answer: Answer::Step(answer) }
}

fn put(job: &Job, step: Step, answer: StepAnswer) -> Decided {
    let change = Change { steps: StepsChange::Put(step), ..Job::without_transition(job.clone()) };
    Decided { effect: Effect::Change(Box::new(change)), answer: Answer::Step(answer) }
}
