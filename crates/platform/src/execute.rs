//! How a verb reaches the store.

use crate::{Error, Platform};
use engine::{Command, ITEMS_MAX, Job, JobId, Scope, check_count};
use std::time::Duration;
use store::{Answer, Reply, Request};

impl Platform {
    /// One request, one reply.
    pub(crate) async fn execute_one(&self, request: Request) -> Result<Answer, Error> {
        let mut replies = self.store.execute(vec![request]).await?;
        let reply = replies.pop().expect("one reply for each request");
        Ok(reply?)
    }

    /// One command about one job.
    pub(crate) async fn command(
        &self,
        scope: &Scope,
        id: JobId,
        command: Command,
    ) -> Result<engine::Answer, Error> {
        let request = Request::Job { scope: scope.clone(), id, command };
        let Answer::Job(answer) = self.execute_one(request).await? else {
            unreachable!("a command is answered as one");
        };
        Ok(answer)
    }

    /// One command about one job, which answers the job as it is then.
    pub(crate) async fn change(
        &self,
        scope: &Scope,
        id: JobId,
        command: Command,
    ) -> Result<Job, Error> {
        let engine::Answer::Job(job) = self.command(scope, id, command).await? else {
            unreachable!("the engine answers these commands with the job");
        };
        Ok(*job)
    }

    /// Many commands, each with a fate of its own, in one transaction; none need none.
    pub(crate) async fn each(
        &self,
        scope: &Scope,
        commands: impl Iterator<Item = (JobId, Command)>,
    ) -> Result<Vec<Reply>, Error> {
        let request = |(id, command)| Request::Job { scope: scope.clone(), id, command };
        let batch: Vec<Request> = commands.map(request).collect();
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        Ok(self.store.execute(batch).await?)
    }
}

/// Refuses a list that is longer than a call may have.
pub(crate) fn check_items(field: &'static str, count: usize) -> Result<(), Error> {
    Ok(check_count(field, count, 0..=ITEMS_MAX)?)
}

/// A span in the unit that fields are checked in.
pub(crate) fn whole_seconds(span: Duration) -> i64 {
    i64::try_from(span.as_secs()).unwrap_or(i64::MAX)
}
