//! Consign as it is measured: a node over a store.

use crate::{Error, database::BenchSchema, error::failed, run_folder::StoreLocation};
use engine::{ITEMS_MAX, JobDraft, JobId, Tenant};
use platform::{Node, Settings, SystemClock, SystemRandom};
use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use store::{Clock, Options, Postgres, PostgresOptions, Sqlite, Store};
use tokio::task::JoinSet;

pub(crate) const JOB_TYPE: &str = "bench";
pub(crate) const PAYLOAD_BYTES: usize = 200;
pub(crate) const TASKS: usize = 64;
/// Tasks that submit whole batches: while one is stored, the next is made.
const BATCH_TASKS: usize = 4;

#[derive(Clone)]
pub(crate) struct BenchNode {
    pub(crate) node: Arc<Node>,
    pub(crate) clock: Arc<SystemClock>,
}

impl BenchNode {
    /// Opens an existing store, with the default settings.
    pub(crate) async fn open(
        location: &StoreLocation,
        clock: &Arc<SystemClock>,
    ) -> Result<Self, Error> {
        let (clock, random) = (clock.clone(), Arc::new(SystemRandom));
        let (c, d) = (clock.clone(), random.clone());
        const OPENING: &str = "the store to be measured cannot be opened";
        let store: Arc<dyn Store> = match location {
            StoreLocation::File(path) => {
                let opened = Sqlite::open(path, c, d, Options::default());
                Arc::new(opened.map_err(failed(OPENING))?)
            }
            StoreLocation::BenchSchema(BenchSchema { address, .. }) => {
                let opened = Postgres::open(address, c, d, PostgresOptions::default()).await;
                Arc::new(opened.map_err(failed(OPENING))?)
            }
        };
        let node = Node::start(store, clock.clone(), random, Settings::default());
        let node = node.map_err(failed("starting the node"))?;
        Ok(BenchNode { node: Arc::new(node), clock })
    }

    /// Submits `jobs` in batches; each task waits for one answer before its next batch.
    pub(crate) async fn submit_batches(&self, jobs: usize) -> Result<(), Error> {
        let next = Arc::new(AtomicUsize::new(0));
        let tasks = (0..BATCH_TASKS).map(|_| {
            let (bench_node, next) = (self.clone(), next.clone());
            async move {
                loop {
                    let first = next.fetch_add(ITEMS_MAX, Ordering::Relaxed);
                    if first >= jobs {
                        return Ok(());
                    }
                    bench_node.submit_batch(first..(first + ITEMS_MAX).min(jobs)).await?;
                }
            }
        });
        join_all(tasks).await.map(drop)
    }

    pub(crate) async fn submit_batch(&self, numbers: Range<usize>) -> Result<Vec<JobId>, Error> {
        let drafts = numbers.map(|number| draft(number, Duration::ZERO)).collect();
        let submitted = self.node.submit_all(&Tenant::default_tenant(), drafts).await;
        let submitted = submitted.map_err(failed("submitting a batch"))?;
        Ok(submitted.iter().map(|job| job.job_id).collect())
    }

    /// Submits `jobs` one by one from many tasks, and returns how long each took to be answered.
    pub(crate) async fn submit_one_by_one(&self, jobs: usize) -> Result<Vec<Duration>, Error> {
        let next = Arc::new(AtomicUsize::new(0));
        let tasks = (0..TASKS).map(|_| {
            let (bench_node, next) = (self.clone(), next.clone());
            async move {
                let mut times = Vec::new();
                while next.fetch_add(1, Ordering::Relaxed) < jobs {
                    let started = bench_node.now();
                    bench_node.submit(times.len(), started).await?;
                    times.push(bench_node.now() - started);
                }
                Ok(times)
            }
        });
        Ok(join_all(tasks).await?.concat())
    }

    pub(crate) async fn submit(&self, number: usize, at: Duration) -> Result<(), Error> {
        let submitted = self.node.submit(&Tenant::default_tenant(), draft(number, at)).await;
        submitted.map(drop).map_err(failed("submitting a job"))
    }

    pub(crate) fn now(&self) -> Duration {
        self.clock.read().monotonic
    }
}

/// Spawns all tasks and returns their results; the first that fails ends the others.
pub(crate) async fn join_all<T: Send + 'static>(
    tasks: impl IntoIterator<Item = impl Future<Output = Result<T, Error>> + Send + 'static>,
) -> Result<Vec<T>, Error> {
    let (mut tasks, mut done) = (JoinSet::from_iter(tasks), Vec::new());
    while let Some(task) = tasks.join_next().await {
        done.push(task.map_err(failed("a task of the run ended early"))??);
    }
    Ok(done)
}

fn draft(number: usize, at: Duration) -> JobDraft {
    let payload = Some(payload(number, at));
    JobDraft { job_type: JOB_TYPE.into(), payload, ..JobDraft::default() }
}

/// [`PAYLOAD_BYTES`] of JSON that begin with the moment `at`.
pub(crate) fn payload(number: usize, at: Duration) -> String {
    let start = format!(r#"{{"at":{},"order":{number},"note":""#, at.as_nanos());
    let rest = PAYLOAD_BYTES.saturating_sub(start.len() + 2);
    format!(r#"{start}{:x<rest$}"}}"#, "")
}

pub(crate) fn sent_at(payload: &str) -> Option<Duration> {
    let digits = payload.strip_prefix(r#"{"at":"#)?.split(',').next()?;
    Some(Duration::from_nanos(digits.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_has_its_length_and_its_moment() {
        for number in [0, 7, 999_999_999] {
            let at = Duration::from_nanos(123_456_789_012);
            let text = payload(number, at);
            assert_eq!((text.len(), sent_at(&text)), (PAYLOAD_BYTES, Some(at)), "{text}");
            assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{text}");
        }
    }
}
