//! Let a handler do a part of its job once, however often the job is tried.

use crate::{Error, Platform};
use engine::{Answer, Command, JobId, JsonText, LeaseToken, Scope, StepAnswer, StepName};

impl Platform {
    /// Marks that a step begins, or tells what is known of it.
    pub async fn begin_step(
        &self,
        scope: &Scope,
        id: JobId,
        token: LeaseToken,
        name: StepName,
    ) -> Result<StepAnswer, Error> {
        self.step(scope, id, Command::BeginStep { token, name }).await
    }

    /// Remembers the result of a step; where it was done before, the first result stands.
    pub async fn finish_step(
        &self,
        scope: &Scope,
        id: JobId,
        token: LeaseToken,
        name: StepName,
        result: JsonText,
    ) -> Result<StepAnswer, Error> {
        self.step(scope, id, Command::FinishStep { token, name, result }).await
    }

    async fn step(&self, scope: &Scope, id: JobId, command: Command) -> Result<StepAnswer, Error> {
        let Answer::Step(answer) = self.command(scope, id, command).await? else {
            unreachable!("a step is answered as one");
        };
        Ok(answer)
    }
}
