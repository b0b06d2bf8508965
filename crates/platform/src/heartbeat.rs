//! Hear that workers are alive, and tell them how their leases stand.

use crate::{
    Error, Platform,
    execute::check_items,
    request::{TypedRequest, variant},
};
use engine::{Beat, Pulse, Scope, WorkerId};
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
    ) -> Result<Vec<Result<Pulse, Error>>, Error> {
        check_items("leases", beats.len())?;
        // A worker's sign of life in general has no lease to tell of.
        let seen = Request::Seen { scope: scope.clone(), worker: worker.clone() };
        let seen = iter::once(TypedRequest::new(seen, |_| Some(None)));
        let read = |answer| variant!(answer, Answer::Job(engine::Answer::Pulse(it)) => Some(it));
        let beats = beats.into_iter().map(Beat::into_command);
        let beats = beats.map(|command| TypedRequest::job(scope, command, read));
        let mut pulses = self.execute_each(seen.chain(beats)).await?.into_iter();
        let seen = pulses.next().expect("one result for each request");
        if pulses.len() == 0 {
            seen?; // beside leases it does not count: they say as well that the worker lives
        }
        Ok(pulses.map(lost_where_refused).filter_map(Result::transpose).collect())
    }

    /// Signs a worker off: it is gone at once. Leases that it still holds stay its own until they
    /// are settled or run out.
    pub async fn leave(&self, scope: &Scope, worker: &WorkerId) -> Result<(), Error> {
        let leave = Request::Leave { scope: scope.clone(), worker: worker.clone() };
        self.execute_one(TypedRequest::done(leave)).await
    }
}

/// The job is gone or was never theirs: either way there is no lease.
fn lost_where_refused(pulse: Result<Option<Pulse>, Error>) -> Result<Option<Pulse>, Error> {
    match pulse {
        Err(Error::Refused(_)) => Ok(Some(Pulse::Lost)),
        other => other,
    }
}
