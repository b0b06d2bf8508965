//! How a verb reaches the store.

use crate::{Error, Platform};
use engine::{Command, ITEMS_MAX, Job, JobId, Scope, check_count};
use std::{mem, time::Duration};
use store::{Answer, Request, StoreError};

/// What one request of many came to. A failure is this one's alone: what it touches is damaged.
pub(crate) type Fate = Result<Answer, Error>;

impl Platform {
    /// One request, one reply.
    pub(crate) async fn execute_one(&self, request: Request) -> Result<Answer, Error> {
        let mut replies = self.writes.execute(vec![request]).await?;
        let reply = replies.pop().expect("one reply for each request");
        Ok(reply?)
    }

    /// One request that sets something which nodes keep in memory. When this returns, it is in
    /// force here.
    pub(crate) async fn set(&self, request: Request) -> Result<Answer, Error> {
        let change = (self.settings_cache.change(), self.catalogue.change());
        let answer = self.execute_one(request).await;
        drop(change);
        // It may have been set although the store could not say so.
        self.apply_settings().await;
        answer
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

    /// Many commands, each with a fate of its own.
    pub(crate) async fn each(
        &self,
        scope: &Scope,
        commands: impl Iterator<Item = (JobId, Command)>,
    ) -> Result<Vec<Fate>, Error> {
        let request = |(id, command)| Request::Job { scope: scope.clone(), id, command };
        self.execute_each(commands.map(request).collect()).await
    }

    /// Many requests, each with a fate of its own, in one transaction; none need none.
    ///
    /// A job that is damaged keeps nothing from the others: the list is halved until it is alone, and each part
    /// is a transaction of its own.
    pub(crate) async fn execute_each(&self, batch: Vec<Request>) -> Result<Vec<Fate>, Error> {
        let mut fates = Vec::with_capacity(batch.len());
        let mut some_done = false;
        let mut parts = vec![batch]; // the next one last
        while let Some(mut part) = parts.pop() {
            match self.execute_part(&mut part).await {
                Ok(done) => {
                    some_done |= !done.is_empty();
                    fates.extend(done);
                }
                Err(StoreError::Damaged(_)) if part.len() > 1 => {
                    let right = part.split_off(part.len() / 2);
                    parts.extend([right, part]);
                }
                Err(error @ StoreError::Damaged(_)) => fates.push(Err(error.into())),
                Err(error) if some_done => return Err(Error::from(error).after_some()),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(fates)
    }

    /// One transaction. What may have to be halved is still there afterwards.
    async fn execute_part(&self, part: &mut Vec<Request>) -> Result<Vec<Fate>, StoreError> {
        if part.is_empty() {
            return Ok(Vec::new());
        }
        let batch = if part.len() == 1 { mem::take(part) } else { part.clone() };
        let replies = self.writes.execute(batch).await?;
        Ok(replies.into_iter().map(|reply| Ok(reply?)).collect())
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
