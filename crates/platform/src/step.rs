//! Steps: a handler does a part of its job once, however many attempts the job has.

use crate::{
    Error, Platform,
    request::{TypedRequest, variant},
};
use engine::{Scope, StepAnswer, StepReport};
use store::Answer;

impl Platform {
    /// Records that a step begins and returns what is known of it, or records its result. If the
    /// step was finished before, the first result is kept.
    pub async fn step(&self, scope: &Scope, step: StepReport) -> Result<StepAnswer, Error> {
        let read = |answer| variant!(answer, Answer::Job(engine::Answer::Step(step)) => step);
        self.execute_one(TypedRequest::job(scope, step.into_command(), read)).await
    }
}
