//! Hear that workers are alive, and tell them how their leases stand.

use crate::{
    Error, Platform,
    execute::{Fate, check_items},
};
use engine::{Answer, Command, JobId, LeaseToken, ProgressReport, Pulse, Scope, WorkerId};
use store::Request;

/// A sign of life for one lease.
#[derive(Clone, Debug)]
pub struct Beat {
    /// The job.
    pub id: JobId,
    /// The lease.
    pub token: LeaseToken,
    /// How far the handler is, if it says.
    pub progress: Option<ProgressReport>,
}

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
        let seen = Request::Seen { scope: scope.clone(), worker: worker.clone() };
        let request = |beat: Beat| Request::Job {
            scope: scope.clone(),
            id: beat.id,
            command: Command::Heartbeat { token: beat.token, progress: beat.progress },
        };
        let batch = std::iter::once(seen).chain(beats.into_iter().map(request)).collect();
        let mut fates = self.execute_each(batch).await?.into_iter();
        let seen = fates.next().expect("one fate for each request");
        if fates.len() == 0 {
            seen?; // beside leases it does not count: they say as well that the worker lives
        }
        Ok(fates.map(pulse).collect())
    }

    /// Signs a worker off: it is gone at once. Leases that it still holds stay its own until they
    /// are settled or run out.
    pub async fn leave(&self, scope: &Scope, worker: &WorkerId) -> Result<(), Error> {
        let leave = Request::Leave { scope: scope.clone(), worker: worker.clone() };
        self.execute_one(leave).await.map(drop)
    }
}

fn pulse(fate: Fate) -> Result<Pulse, Error> {
    match fate {
        Ok(store::Answer::Job(Answer::Pulse(pulse))) => Ok(pulse),
        Ok(_) => unreachable!("a heartbeat is answered as one"),
        // The job is gone or was never theirs: either way there is no lease.
        Err(Error::Refused(_)) => Ok(Pulse::Lost),
        Err(error) => Err(error),
    }
}
