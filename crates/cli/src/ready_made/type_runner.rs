//! One job type and its runner.

use super::Shutdown;
use consign::{Registration, Runner, RunnerHandle, SLOTS_DEFAULT, StartError};
use engine::{JobType, Policy, ReadyMade};
use platform::Node;
use std::{pin::pin, sync::Arc, time::Duration};
use tokio::time::timeout;
use tracing::info;

pub(super) struct TypeRunner {
    handler: Option<ReadyMade>,
    concurrency: Option<u32>,
    timeout: Duration,
    /// `None` where the handler is not allowed.
    runner: Option<RunnerHandle>,
}

impl TypeRunner {
    pub(super) async fn start(
        node: &Arc<Node>,
        name: String,
        registration: Registration,
        policy: &Policy,
    ) -> Result<Self, StartError> {
        let slots = policy.concurrency.map_or(SLOTS_DEFAULT, |slots| slots as usize);
        let runner = Runner::new(node).name(name).with(registration.slots(slots));
        Ok(TypeRunner { runner: Some(runner.start().await?), ..TypeRunner::without_runner(policy) })
    }

    /// A type without a runner; it stays so until the policy changes.
    pub(super) fn without_runner(policy: &Policy) -> Self {
        let (handler, concurrency) = (policy.handler.clone(), policy.concurrency);
        TypeRunner { handler, concurrency, timeout: policy.timeout, runner: None }
    }

    /// Whether the runner still fits the policy. The runner reads the rest of the policy with every
    /// claim.
    pub(super) fn matches(&self, policy: &Policy) -> bool {
        self.handler == policy.handler && self.concurrency == policy.concurrency
    }

    /// Raises the time limit. Attempts under way keep the limit that they started with.
    pub(super) fn raise_timeout(&mut self, timeout: Duration) {
        self.timeout = self.timeout.max(timeout);
    }

    /// Claims no more jobs, and lets attempts under way end: for as long as their type allows, or
    /// less where the server stops.
    pub(super) async fn stop(self, job_type: JobType, mut shutdown: Shutdown) {
        let Some(runner) = self.runner else { return };
        let grace = shutdown.borrow().unwrap_or(self.timeout + REPORT_TIME);
        let mut stopping = pin!(runner.stop(grace));
        let stopped = tokio::select! {
            stopped = &mut stopping => Some(stopped),
            // Dropping it gives back the attempts that still run.
            grace = shorter_grace(&mut shutdown, grace) => timeout(grace, stopping).await.ok(),
        };
        let released = stopped.map(|stopped| stopped.released);
        info!(%job_type, released, "a ready-made handler stopped");
    }
}

/// Time for the reports of attempts that end at the last moment.
const REPORT_TIME: Duration = Duration::from_secs(5);

/// Waits until the grace gets shorter, which may happen more than once.
async fn shorter_grace(shutdown: &mut Shutdown, grace_before: Duration) -> Duration {
    let shorter_grace =
        shutdown.wait_for(|grace| grace.is_some_and(|grace| grace < grace_before)).await;
    // The sender is gone: no time is left.
    shorter_grace.ok().and_then(|grace| *grace).unwrap_or_default()
}
