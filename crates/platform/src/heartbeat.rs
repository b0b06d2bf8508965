//! Hear that workers are alive, and tell them how their leases stand.

use crate::{
    Error, Platform,
    execute::check_items,
    request::{TypedRequest, variant},
};
use engine::{Beat, LeaseState, Scope, WorkerId};
use std::iter;
use store::{Answer, Request};

impl Platform {
    /// Extends leases, in the order in which they were given. An error among the answers is that this job is
    /// damaged: nobody can keep its lease.
    pub async fn heartbeat(
        &self,
        scope: &Scope,
        worker: &WorkerId,
        beats: Vec<Beat>,
    ) -> Result<Vec<Result<LeaseState, Error>>, Error> {
        check_items("leases", beats.len())?;
        // A worker's sign of life in general has no lease to tell of.
        let seen = Request::WorkerAlive { scope: scope.clone(), worker: worker.clone() };
        let seen = iter::once(TypedRequest::new(seen, |_| Some(None)));
        let read =
            |answer| variant!(answer, Answer::Job(engine::Answer::LeaseState(it)) => Some(it));
        let beats = beats.into_iter().map(Beat::into_command);
        let beats = beats.map(|command| TypedRequest::job(scope, command, read));
        let mut lease_states = self.execute_each(seen.chain(beats)).await?.into_iter();
        let seen = lease_states.next().expect("one result for each request");
        if lease_states.len() == 0 {
            seen?; // beside leases it does not count: they say as well that the worker lives
        }
        Ok(lease_states.map(lost_where_refused).filter_map(Result::transpose).collect())
    }

    /// Signs a worker off: it is gone at once. Leases that it still holds stay its own until they
    /// are settled or run out.
    pub async fn leave(&self, scope: &Scope, worker: &WorkerId) -> Result<(), Error> {
        let leave = Request::Leave { scope: scope.clone(), worker: worker.clone() };
        self.execute_one(TypedRequest::done(leave)).await
    }
}

/// The job is gone or was never theirs: either way there is no lease.
fn lost_where_refused(
    lease_state: Result<Option<LeaseState>, Error>,
) -> Result<Option<LeaseState>, Error> {
    match lease_state {
        Err(Error::Refused(_)) => Ok(Some(LeaseState::Lost)),
        other => other,
    }
}
