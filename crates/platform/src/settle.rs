//! Settle attempts.

use crate::{Error, Platform, execute::check_items, request::TypedRequest};
use engine::{Command, JobId, Report, Scope, Status};

/// The result of one report: the status of the job after it, or why the report failed. That is a
/// refusal, or the job is damaged. A failure of the whole store fails the whole call.
pub type Verdict = Result<Status, Error>;

impl Platform {
    /// Settles attempts. Verdicts are in request order.
    pub async fn settle(&self, scope: &Scope, reports: Vec<Report>) -> Result<Vec<Verdict>, Error> {
        check_items("items", reports.len())?;
        self.end_attempts(scope, reports.into_iter().map(Report::into_command)).await
    }

    /// Executes commands that end attempts. Wakes the maintenance loop where a job waits again: its
    /// next attempt may start later.
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
