//! Hear how attempts ended.

use crate::{Error, Platform, execute::check_items, request::TypedRequest};
use engine::{Command, JobId, Report, Scope, Status};

/// What a report came to: what the job became by it, or why it was not taken. That is a refusal, or that
/// the job is damaged; what is wrong with the whole store fails the whole call.
pub type Verdict = Result<Status, Error>;

impl Platform {
    /// Settles attempts, each with a verdict of its own, in the order in which they were given.
    pub async fn settle(&self, scope: &Scope, reports: Vec<Report>) -> Result<Vec<Verdict>, Error> {
        check_items("items", reports.len())?;
        self.end_attempts(scope, reports.into_iter().map(Report::into_command)).await
    }

    /// Carries out what ends attempts, and wakes the maintenance loop where a job waits again: it
    /// may have been put off until later.
    pub(crate) async fn end_attempts(
        &self,
        scope: &Scope,
        commands: impl Iterator<Item = (JobId, Command)>,
    ) -> Result<Vec<Verdict>, Error> {
        let requests = commands.map(|command| TypedRequest::end_attempt(scope, command));
        let verdicts = self.execute_each(requests).await?;
        if verdicts.iter().flatten().any(|status| !status.is_ended()) {
            self.notifier.notify();
        }
        Ok(verdicts)
    }
}
