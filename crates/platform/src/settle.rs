//! Settle attempts.

use crate::{Error, Platform, execute::check_items, request::TypedRequest};
use engine::{Command, JobId, Report, Scope, Status};

/// The result of one report: the status of the job after it, or why the report failed. That is a
/// refusal, or the job is damaged. A failure of the whole store fails the whole call.
pub type SettleResult = Result<Status, Error>;

impl Platform {
    /// Settles attempts. Results are in request order.
    pub async fn settle(
        &self,
        scope: &Scope,
        reports: Vec<Report>,
    ) -> Result<Vec<SettleResult>, Error> {
        check_items("items", reports.len())?;
        self.end_attempts(scope, reports.into_iter().map(Report::into_command)).await
    }

    /// Executes commands that end attempts. Notifies the maintenance thread if a job waits again,
    /// because its next attempt may start later.
    pub(crate) async fn end_attempts(
        &self,
        scope: &Scope,
        commands: impl Iterator<Item = (JobId, Command)>,
    ) -> Result<Vec<SettleResult>, Error> {
        let requests = commands.map(|command| TypedRequest::end_attempt(scope, command));
        let results = self.execute_each(requests).await?;
        if results.iter().flatten().any(|status| !status.is_ended()) {
            self.notifier.notify();
        }
        Ok(results)
    }
}
