//! How soon a job starts in an idle system, beside one durable commit.

use crate::{
    Bench, Error, ROUNDS,
    bench_node::{BenchNode, sent_at},
    error::check_count,
    measure::Side,
    raw::{RawStore, raw_jobs},
    run_folder::StoreLocation,
    worker_group::{SLOTS, Work, WorkerGroup},
};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::time::sleep;

/// 100 jobs a second.
const GAP: Duration = Duration::from_millis(10);

pub(crate) fn measure(bench: &mut Bench<'_>) -> Result<(), Error> {
    const KEYS: [&str; 2] = ["idle_start_p50", "idle_start_p99"];
    let jobs = (bench.settings.jobs / 100).clamp(20, 300);
    for round in 0..ROUNDS {
        bench.report_round("the start of jobs in an idle system", round);
        let (nodes, (mut raw, _)) = (nodes(bench)?, bench.open_raw()?);
        let ((ours, raw), _) = bench.timed(alternate(&nodes, &mut raw, jobs))?;
        bench.numbers.push_times(Side::Ours, KEYS, &ours);
        bench.numbers.push_times(Side::RawStore, KEYS, &raw);
    }
    Ok(())
}

/// The node that takes submits, and the node that runs jobs. They are one where only one node can
/// use the store; otherwise a job has to cross from one to the other.
fn nodes(bench: &Bench<'_>) -> Result<[BenchNode; 2], Error> {
    let (entry_node, location) = bench.open_own()?;
    Ok(match &location {
        StoreLocation::File(_) => [entry_node.clone(), entry_node],
        StoreLocation::BenchSchema(_) => [entry_node, bench.open(&location)?],
    })
}

/// The time from the submit to the handler's first line, and of one raw job in one commit, the
/// minimum for durability. They take turns within each gap, so that whatever disturbs the disk
/// disturbs both.
async fn alternate(
    [bench_node, runner_node]: &[BenchNode; 2],
    raw: &mut RawStore,
    jobs: usize,
) -> Result<(Vec<Duration>, Vec<Duration>), Error> {
    let (times, new) = (Arc::new(Mutex::new(Vec::new())), raw_jobs(jobs));
    let worker_group =
        WorkerGroup::start(runner_node, SLOTS, recording_start(runner_node, &times)).await?;
    let (started, mut raw_times) = (bench_node.now(), Vec::new());
    for (number, job) in new.chunks(1).enumerate() {
        let due = started + GAP * number as u32;
        sleep(due.saturating_sub(bench_node.now())).await;
        bench_node.submit(number, bench_node.now()).await?;
        sleep((due + GAP / 2).saturating_sub(bench_node.now())).await;
        let started_raw = bench_node.now();
        raw.submit(job, 1).await?;
        raw_times.push(bench_node.now() - started_raw);
    }
    worker_group.wait_until_settled(jobs).await?;
    worker_group.stop().await?;
    let times = std::mem::take(&mut *times.lock().expect(UNPOISONED));
    check_count("started jobs", jobs, times.len())?;
    Ok((times, raw_times))
}

fn recording_start(bench_node: &BenchNode, times: &Arc<Mutex<Vec<Duration>>>) -> Work {
    let (bench_node, times) = (bench_node.clone(), times.clone());
    Arc::new(move |payload| {
        let waited = sent_at(payload).map(|sent| bench_node.now() - sent);
        times.lock().expect(UNPOISONED).extend(waited);
    })
}

const UNPOISONED: &str = "no handler of ours panics";
