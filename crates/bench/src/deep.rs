//! Whether a long queue is slower than a short one, and how much memory it takes.
//!
//! The same workers drain both queues, a slice of each in turns. Only the first part of the short
//! queue is measured, as of the long one: when a queue runs empty, its workers wait for each other,
//! which says nothing about depth.

use crate::{
    Bench, Error, ROUNDS,
    bench_node::BenchNode,
    figures::rate,
    machine::peak_memory_mib,
    measure::Side::{Ours, RawStore},
    run_folder::{SHALLOW, StoreLocation},
    table::thousands,
    worker_group::WorkerGroup,
};
use std::sync::Arc;

const SHALLOW_JOBS: usize = 10_000;

pub(crate) fn measure(bench: &mut Bench<'_>) -> Result<(), Error> {
    let deep = bench.settings.deep;
    let plan = DrainPlan::of(deep);
    (bench.progress)(&format!("submitting {} jobs …", thousands(deep as f64)));
    let (long, location) = bench.open_own()?;
    bench.timed(long.submit_batches(deep))?;
    let long = reopen(bench, long, &location)?;

    for round in 0..ROUNDS {
        bench.report_round("the drain of a deep queue", round);
        let deep_rate = slice(bench, &long, plan)?;
        bench.numbers.push(Ours, "drain_deep", deep_rate);
        if round == 0 {
            bench.numbers.push(Ours, "peak_memory", peak_memory_mib()?);
        }
        let shallow_rate = short_slice(bench, plan)?;
        bench.numbers.push(RawStore, "drain_deep", shallow_rate);
        bench.numbers.push(Ours, "drain_shallow", shallow_rate);
    }
    Ok(())
}

/// How many jobs are drained at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DrainPlan {
    pub(crate) shallow: usize,
    slice: usize,
    slots: usize,
}

impl DrainPlan {
    /// For a queue of 1,000,000: 8,000 of 10,000 jobs, with 2,000 slots. All slices, with the jobs
    /// that are claimed when each ends, are a small part of the long queue.
    pub(crate) fn of(deep: usize) -> Self {
        let shallow = SHALLOW_JOBS.min(deep / 10);
        DrainPlan { shallow, slice: shallow * 4 / 5, slots: (shallow / 5).max(1) }
    }
}

fn short_slice(bench: &Bench<'_>, plan: DrainPlan) -> Result<f64, Error> {
    let location = bench.run_folder.fresh(SHALLOW)?;
    let short = bench.open(&location)?;
    bench.timed(short.submit_batches(plan.shallow))?;
    let short = reopen(bench, short, &location)?;
    slice(bench, &short, plan)
}

/// Closes and opens the store, so that all of it is on disk and neither queue has a warm cache.
fn reopen(
    bench: &Bench<'_>,
    bench_node: BenchNode,
    location: &StoreLocation,
) -> Result<BenchNode, Error> {
    drop(bench_node);
    bench.runtime.block_on(location.settle())?;
    bench.open(location)
}

fn slice(bench: &Bench<'_>, bench_node: &BenchNode, plan: DrainPlan) -> Result<f64, Error> {
    let drain = async {
        let worker_group = WorkerGroup::start(bench_node, plan.slots, Arc::new(|_| ())).await?;
        let settled = worker_group.wait_until_settled(plan.slice).await?;
        Ok((worker_group, settled))
    };
    let ((worker_group, settled), took) = bench.timed(drain)?;
    bench.timed(worker_group.stop())?;
    Ok(rate(settled, took))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DEEP_MIN;

    #[test]
    fn the_long_queue_does_not_run_empty() {
        for deep in [DEEP_MIN, 5_000, 123_456, 1_000_000, 50_000_000] {
            let plan = DrainPlan::of(deep);
            let drained = ROUNDS * (plan.slice + 2 * plan.slots);
            assert!(drained < deep, "{deep}: {plan:?}");
            assert!(plan.slice > 0 && plan.slice <= plan.shallow, "{deep}: {plan:?}");
        }
    }
}
