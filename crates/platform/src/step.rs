//! Let a handler do a part of its job once, however often the job is tried.

use crate::{
    Error, Platform,
    request::{TypedRequest, variant},
};
use engine::{Scope, StepAnswer, StepReport};
use store::Answer;

impl Platform {
    /// Marks that a step begins, or tells what is known of it; or remembers its result. Where the
    /// step was done before, the first result stands.
    pub async fn step(&self, scope: &Scope, step: StepReport) -> Result<StepAnswer, Error> {
        let read = |answer| variant!(answer, Answer::Job(engine::Answer::Step(step)) => step);
        self.execute_one(TypedRequest::job(scope, step.into_command(), read)).await
    }
}
