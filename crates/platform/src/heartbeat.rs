//! Hear that workers are alive, and tell them how their leases stand.

use crate::{Error, Platform, execute::check_items};
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
    /// Extends leases, in the order in which they were given.
    pub async fn heartbeat(
        &self,
        scope: &Scope,
        worker: &WorkerId,
        beats: Vec<Beat>,
    ) -> Result<Vec<Pulse>, Error> {
        check_items("leases", beats.len())?;
        let seen = Request::Seen { scope: scope.clone(), worker: worker.clone() };
        let request = |beat: Beat| Request::Job {
            scope: scope.clone(),
            id: beat.id,
            command: Command::Heartbeat { token: beat.token, progress: beat.progress },
        };
        let batch = std::iter::once(seen).chain(beats.into_iter().map(request)).collect();
        let replies = self.store.execute(batch).await?;
        Ok(replies.into_iter().skip(1).map(pulse).collect())
    }
}

fn pulse(reply: store::Reply) -> Pulse {
    // The job is gone or was never theirs: either way there is no lease.
    let Ok(answer) = reply else { return Pulse::Lost };
    let store::Answer::Job(Answer::Pulse(pulse)) = answer else {
        unreachable!("a heartbeat is answered as one");
    };
    pulse
}
