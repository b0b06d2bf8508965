//! Let a handler do a part of its job once, however often the job is tried.

use crate::{Error, Platform, request::TypedRequest};
use engine::{Scope, StepAnswer, StepReport};

impl Platform {
    /// Marks that a step begins, or tells what is known of it; or remembers its result. Where the
    /// step was done before, the first result stands.
    pub async fn step(&self, scope: &Scope, step: StepReport) -> Result<StepAnswer, Error> {
        self.execute_one(TypedRequest::step(scope, step)).await
    }
}
