//! One type and its runner.

use super::Asked;
use consign::{Registration, Runner, RunningRunner, SLOTS, StartError};
use engine::{JobType, Policy, ReadyMade};
use platform::Node;
use std::{pin::pin, sync::Arc, time::Duration};
use tokio::time::timeout;
use tracing::info;

/// Where the jobs of one type are carried out, as its policy wants it.
pub(super) struct Post {
    handler: Option<ReadyMade>,
    concurrency: Option<u32>,
    timeout: Duration,
    /// Nothing where the handler is not allowed.
    working: Option<RunningRunner>,
}

impl Post {
    pub(super) async fn start(
        node: &Arc<Node>,
        name: String,
        duty: Registration,
        policy: &Policy,
    ) -> Result<Self, StartError> {
        let slots = policy.concurrency.map_or(SLOTS, |slots| slots as usize);
        let runner = Runner::new(node).name(name).with(duty.slots(slots));
        Ok(Post { working: Some(runner.start().await?), ..Post::vacant(policy) })
    }

    /// Nobody is there, and nobody will be before the policy changes.
    pub(super) fn vacant(policy: &Policy) -> Self {
        let (handler, concurrency) = (policy.handler.clone(), policy.concurrency);
        Post { handler, concurrency, timeout: policy.timeout, working: None }
    }

    /// Whether it is still what the policy wants. What else a policy says is asked with every claim.
    pub(super) fn suits(&self, policy: &Policy) -> bool {
        self.handler == policy.handler && self.concurrency == policy.concurrency
    }

    /// Attempts may take so long from now on, and those under way as long as they were told.
    pub(super) fn allow(&mut self, timeout: Duration) {
        self.timeout = self.timeout.max(timeout);
    }

    /// Takes no more jobs, and lets those under way end: for as long as their type lets them take, or less where all
    /// shall end.
    pub(super) async fn leave(self, job_type: JobType, mut asked: Asked) {
        let Some(working) = self.working else { return };
        let grace = asked.borrow().unwrap_or(self.timeout + REPORTS);
        let mut stopping = pin!(working.stop(grace));
        let stopped = tokio::select! {
            stopped = &mut stopping => Some(stopped),
            // Dropped, it gives back what still runs.
            grace = shorter(&mut asked, grace) => timeout(grace, stopping).await.ok(),
        };
        let released = stopped.map(|stopped| stopped.released);
        info!(%job_type, released, "a ready-made handler stopped");
    }
}

/// What attempts that end at the last moment need to be told of.
const REPORTS: Duration = Duration::from_secs(5);

/// Waits until there is less time than there was, which may happen more than once.
async fn shorter(asked: &mut Asked, than: Duration) -> Duration {
    let shorter = asked.wait_for(|grace| grace.is_some_and(|grace| grace < than)).await;
    // No time where the server is gone.
    shorter.ok().and_then(|grace| *grace).unwrap_or_default()
}
