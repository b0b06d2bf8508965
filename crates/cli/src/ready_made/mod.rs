//! The ready-made handlers of a server: for each type whose policy names one, a runner inside this
//! node.
//!
//! Any node may change policies at any time, so a task reads them again and again. It starts,
//! changes or stops a runner within a few seconds, and attempts under way may end.

mod environment;
pub(crate) mod registration;
pub(crate) mod signing;
mod type_runner;

pub(crate) use environment::HandlerEnvironment;
pub(crate) use signing::NAME as SIGNING_KEY;

use anyhow::Result;
use engine::{JobType, Policy, ReadyMade};
use platform::Node;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::{sync::watch, task::JoinSet, time::sleep};
use tracing::warn;
use type_runner::TypeRunner;

const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Whether all runners shall end, and how long that may take.
type Shutdown = watch::Receiver<Option<Duration>>;

/// The running runners. Dropping this gives back the jobs that they have not finished.
pub(crate) struct ReadyMadeHandlers {
    shutdown_sender: watch::Sender<Option<Duration>>,
    /// One task; dropping the set aborts it.
    follow_task: JoinSet<()>,
}

impl ReadyMadeHandlers {
    /// Starts the runners that the policies want, and follows the policies from then on. `name`
    /// prefixes the names of the workers.
    pub(crate) async fn start(
        node: &Arc<Node>,
        environment: HandlerEnvironment,
        name: String,
    ) -> Result<Self> {
        let (shutdown_sender, shutdown) = watch::channel(None);
        let mut runner_set = RunnerSet {
            node: node.clone(),
            environment,
            name,
            number: 0,
            runners: BTreeMap::new(),
            stopping_runners: JoinSet::new(),
            shutdown,
        };
        runner_set.adjust(node.policies().await?).await;
        let mut follow_task = JoinSet::new();
        follow_task.spawn(runner_set.follow());
        Ok(ReadyMadeHandlers { shutdown_sender, follow_task })
    }

    /// Claims no more jobs, waits for those under way, and gives back what does not end in time. A
    /// second call may shorten the time.
    pub(crate) async fn stop(&mut self, grace: Duration) {
        self.shutdown_sender.send_replace(Some(grace));
        while self.follow_task.join_next().await.is_some() {}
    }
}

struct RunnerSet {
    node: Arc<Node>,
    environment: HandlerEnvironment,
    name: String,
    /// Of the last runner: two runners that overlap must not have the same name.
    number: usize,
    runners: BTreeMap<JobType, TypeRunner>,
    stopping_runners: JoinSet<()>,
    shutdown: Shutdown,
}

impl RunnerSet {
    async fn follow(mut self) {
        let mut shutdown = self.shutdown.clone();
        loop {
            tokio::select! {
                biased;
                () = shutdown_requested(&mut shutdown) => break,
                () = sleep(POLL_INTERVAL) => {}
            }
            match self.node.policies().await {
                Ok(policies) => self.adjust(policies).await,
                Err(error) => {
                    warn!(%error, "policies could not be read: ready-made handlers stay as they are")
                }
            }
            while self.stopping_runners.try_join_next().is_some() {}
        }
        for (job_type, type_runner) in std::mem::take(&mut self.runners) {
            self.stop_runner(job_type, type_runner);
        }
        while self.stopping_runners.join_next().await.is_some() {}
    }

    /// Makes the runners match the policies: one for each type that wants one, and no other.
    async fn adjust(&mut self, policies: BTreeMap<JobType, Policy>) {
        let is_stale = |job_type: &JobType, type_runner: &mut TypeRunner| {
            policies.get(job_type).is_none_or(|policy| !type_runner.matches(policy))
        };
        let stale: Vec<_> = self.runners.extract_if(.., is_stale).collect();
        stale
            .into_iter()
            .for_each(|(job_type, type_runner)| self.stop_runner(job_type, type_runner));
        for (job_type, policy) in policies {
            let Some(handler) = policy.handler.clone() else { continue };
            if let Some(type_runner) = self.runners.get_mut(&job_type) {
                type_runner.raise_timeout(policy.timeout);
            } else {
                self.start_runner(job_type, &handler, &policy).await;
            }
        }
    }

    async fn start_runner(&mut self, job_type: JobType, handler: &ReadyMade, policy: &Policy) {
        let registration = match self.environment.registration(&job_type, handler) {
            Ok(registration) => registration,
            Err(reason) => {
                warn!(%job_type, %reason, "the ready-made handler cannot run: its jobs wait");
                self.runners.insert(job_type, TypeRunner::without_runner(policy));
                return;
            }
        };
        self.number += 1;
        let name = match self.number {
            1 => self.name.clone(),
            number => format!("{}-{number}", self.name),
        };
        match TypeRunner::start(&self.node, name, registration, policy).await {
            Ok(type_runner) => drop(self.runners.insert(job_type, type_runner)),
            // The next read tries again.
            Err(error) => warn!(%job_type, %error, "the ready-made handler could not be started"),
        }
    }

    fn stop_runner(&mut self, job_type: JobType, type_runner: TypeRunner) {
        self.stopping_runners.spawn(type_runner.stop(job_type, self.shutdown.clone()));
    }
}

async fn shutdown_requested(shutdown: &mut Shutdown) {
    // An error means that the sender is gone: end as well.
    drop(shutdown.wait_for(Option::is_some).await);
}
