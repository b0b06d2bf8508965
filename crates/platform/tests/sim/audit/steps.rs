//! Steps complete once.

use super::{AuditResult, Auditor, ensure};
use engine::{JobId, LeaseToken, StepAnswer};

/// What the auditor knows of a step.
#[derive(Default)]
pub(super) struct StepWatch {
    has_begun: bool,
    result: Option<String>,
    /// A result was sent, and it is unknown whether it arrived.
    is_unanswered: bool,
}

impl Auditor {
    /// The answer to a handler that began or finished a step. `None`: there was no answer.
    pub(crate) fn audit_step(
        &mut self,
        id: JobId,
        token: &LeaseToken,
        name: &'static str,
        finishing: Option<&str>,
        answer: Option<&StepAnswer>,
    ) -> AuditResult {
        let watch = &self.jobs[&id];
        let claim = watch.claims.iter().find(|claim| claim.token.as_ref() == Some(token));
        let open = watch.exists() && claim.is_some_and(|claim| claim.closing.is_none());
        ensure(answer.is_none() || open, "I7", || {
            format!("{id}: step {name} without a valid lease")
        })?;
        let step = self.steps.entry((id, name)).or_default();
        match answer {
            None => step.is_unanswered |= finishing.is_some(),
            Some(StepAnswer::Done(answered)) => {
                let first = step.result.as_deref().or(finishing);
                let same = step.is_unanswered || first == Some(answered.as_str());
                ensure(same, "I3", || format!("{id}: step {name} has a second result"))?;
                step.result = Some(answered.as_str().to_owned());
                step.is_unanswered = false;
            }
            Some(StepAnswer::New) => {
                let first = !step.has_begun && step.result.is_none();
                ensure(first, "I3", || format!("{id}: step {name} was forgotten"))?;
                step.has_begun = true;
            }
            Some(StepAnswer::Unfinished) => {
                ensure(step.result.is_none(), "I3", || format!("{id}: step {name} was forgotten"))?;
                step.has_begun = true;
            }
        }
        Ok(())
    }

    /// A redrive deleted the steps of a job, or may have.
    pub(crate) fn forget_steps(&mut self, id: JobId) {
        self.steps.retain(|(job, _), _| *job != id);
    }
}
