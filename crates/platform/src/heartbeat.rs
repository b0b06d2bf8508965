//! Workers' heartbeats, and the state of their leases in answer.

use crate::{
    Error, Platform,
    execute::check_items,
    request::{TypedRequest, variant},
};
use engine::{Heartbeat, LeaseState, Scope, WorkerId};
use std::iter;
use store::{Answer, Request};

impl Platform {
    /// Extends leases. Answers are in request order. An error among the answers means that this job
    /// is damaged: no worker can keep its lease.
    pub async fn heartbeat(
        &self,
        scope: &Scope,
        worker: &WorkerId,
        beats: Vec<Heartbeat>,
    ) -> Result<Vec<Result<LeaseState, Error>>, Error> {
        check_items("leases", beats.len())?;
        // A heartbeat without leases reports the worker itself as alive.
        let worker_alive = Request::WorkerAlive { scope: scope.clone(), worker: worker.clone() };
        let worker_alive = iter::once(TypedRequest::new(worker_alive, |_| Some(None)));
        let read =
            |answer| variant!(answer, Answer::Job(engine::Answer::LeaseState(it)) => Some(it));
        let beats = beats.into_iter().map(Heartbeat::into_command);
        let beats = beats.map(|command| TypedRequest::job(scope, command, read));
        let mut lease_states = self.execute_each(worker_alive.chain(beats)).await?.into_iter();
        let worker_alive = lease_states.next().expect("one result for each request");
        if lease_states.len() == 0 {
            worker_alive?; // with leases it does not matter: they report the worker as alive, too
        }
        Ok(lease_states.map(refusal_as_lost).filter_map(Result::transpose).collect())
    }

    /// Signs a worker off: it counts as gone at once. It keeps its leases until they are settled or
    /// run out.
    pub async fn leave(&self, scope: &Scope, worker: &WorkerId) -> Result<(), Error> {
        let leave = Request::Leave { scope: scope.clone(), worker: worker.clone() };
        self.execute_one(TypedRequest::without_answer(leave)).await
    }
}

/// A refusal means that the job is gone or was never this worker's: either way there is no lease.
fn refusal_as_lost(
    lease_state: Result<Option<LeaseState>, Error>,
) -> Result<Option<LeaseState>, Error> {
    match lease_state {
        Err(Error::Refused(_)) => Ok(Some(LeaseState::Lost)),
        other => other,
    }
}
