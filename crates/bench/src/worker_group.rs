//! Workers that only note their jobs, as fast as they can: a runner of the SDK.

use crate::{
    Error,
    bench_node::{BenchNode, JOB_TYPE},
    error::failed,
};
use serde_json::value::RawValue;
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, sleep};
use worker::{Context, Fail, Runner, RunnerHandle, on};

/// What a handler does with the payload of a job.
pub(crate) type Work = Arc<dyn Fn(&str) + Send + Sync>;

/// Handlers at a time: the jobs of one claim run while those of the last are reported. Raw has as
/// many.
pub(crate) const SLOTS: usize = 4 * engine::CLAIM_MAX;

/// When no job was settled for so long, the run fails.
const SILENCE_MAX: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_micros(500);
const GRACE: Duration = Duration::from_secs(30);

pub(crate) struct WorkerGroup(RunnerHandle);

impl WorkerGroup {
    pub(crate) async fn start(
        bench_node: &BenchNode,
        slots: usize,
        work: Work,
    ) -> Result<Self, Error> {
        let handler = move |payload: Box<RawValue>, _: Context| {
            work(payload.get());
            std::future::ready(Ok::<(), Fail>(()))
        };
        let runner = Runner::new(&bench_node.node).with(on(JOB_TYPE, handler).slots(slots));
        Ok(WorkerGroup(runner.start().await.map_err(failed("starting the workers"))?))
    }

    /// Waits until `jobs` were settled since the start, and returns how many there were by then.
    pub(crate) async fn wait_until_settled(&self, jobs: usize) -> Result<usize, Error> {
        let (mut last, mut since) = (0, Instant::now());
        loop {
            let settled = self.0.stats().reported;
            if settled >= jobs {
                return Ok(settled);
            }
            if settled > last {
                (last, since) = (settled, Instant::now());
            } else if since.elapsed() > SILENCE_MAX {
                let seconds = SILENCE_MAX.as_secs();
                return Err(Error::Unmeasurable(format!(
                    "no job was settled for {seconds} s; {settled} of {jobs} were, so the run was ended"
                )));
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Finishes what is claimed, and returns when the last job is settled.
    pub(crate) async fn stop(self) -> Result<(), Error> {
        match self.0.stop(GRACE).await {
            worker::StopSummary { released: 0, unreported: 0 } => Ok(()),
            summary => Err(Error::Unmeasurable(format!("a job was not settled: {summary:?}"))),
        }
    }
}

/// Lets workers settle `jobs` while `producers` run, and returns the result of these.
pub(crate) async fn lives<T>(
    bench_node: &BenchNode,
    producers: impl Future<Output = Result<T, Error>>,
    jobs: usize,
) -> Result<T, Error> {
    let worker_group = WorkerGroup::start(bench_node, SLOTS, Arc::new(|_| ())).await?;
    let (produced, _) = tokio::try_join!(producers, worker_group.wait_until_settled(jobs))?;
    worker_group.stop().await?;
    Ok(produced)
}
