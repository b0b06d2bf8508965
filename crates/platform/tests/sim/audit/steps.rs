//! Steps complete once.

use super::{Auditor, Verdict, ensure};
use engine::{JobId, LeaseToken, StepAnswer};

/// What is known of a step.
#[derive(Default)]
pub(super) struct StepWatch {
    begun: bool,
    done: Option<String>,
    /// A result was sent, and it is unknown whether it arrived.
    unsure: bool,
}

impl Auditor {
    /// The answer to a handler that began or finished a step. `None`: there was no answer.
    pub(crate) fn audit_step(
        &mut self,
        id: JobId,
        token: &LeaseToken,
        name: &'static str,
        finishing: Option<&str>,
        heard: Option<&StepAnswer>,
    ) -> Verdict {
        let watch = &self.jobs[&id];
        let claim = watch.claims.iter().find(|claim| claim.token.as_ref() == Some(token));
        let open = watch.is_there() && claim.is_some_and(|claim| claim.closed.is_none());
        ensure(heard.is_none() || open, "I7", || {
            format!("{id}: step {name} without a valid lease")
        })?;
        let step = self.steps.entry((id, name)).or_default();
        match heard {
            None => step.unsure |= finishing.is_some(),
            Some(StepAnswer::Done(result)) => {
                let first = step.done.as_deref().or(finishing);
                let same = step.unsure || first == Some(result.as_str());
                ensure(same, "I3", || format!("{id}: step {name} has a second result"))?;
                step.done = Some(result.as_str().to_owned());
                step.unsure = false;
            }
            Some(StepAnswer::New) => {
                let first = !step.begun && step.done.is_none();
                ensure(first, "I3", || format!("{id}: step {name} was forgotten"))?;
                step.begun = true;
            }
            Some(StepAnswer::Unfinished) => {
                ensure(step.done.is_none(), "I3", || format!("{id}: step {name} was forgotten"))?;
                step.begun = true;
            }
        }
        Ok(())
    }

    /// A redrive deleted the steps of a job, or may have.
    pub(crate) fn steps_forgotten(&mut self, id: JobId) {
        self.steps.retain(|(job, _), _| *job != id);
    }
}
