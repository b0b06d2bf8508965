//! Hear that workers are alive, and tell them how their leases stand.

use crate::{Error, Platform, execute::check_items, request::TypedRequest};
use engine::{Beat, Pulse, Scope, WorkerId};
use std::iter;

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
        let seen = iter::once(TypedRequest::seen(scope, worker));
        let beats = beats.into_iter().map(|beat| TypedRequest::heartbeat(scope, beat));
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
        self.execute_one(TypedRequest::leave(scope, worker)).await
    }
}

/// The job is gone or was never theirs: either way there is no lease.
fn lost_where_refused(pulse: Result<Option<Pulse>, Error>) -> Result<Option<Pulse>, Error> {
    match pulse {
        Err(Error::Refused(_)) => Ok(Some(Pulse::Lost)),
        other => other,
    }
}
