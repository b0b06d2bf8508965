//! Whether a long queue is slower than a short one, and how much memory it takes.
//!
//! Both queues are drained by the same crew, a slice of each in turns. Only the first part of a short queue is
//! measured, as of the long one: when a queue runs empty its workers wait for each other, which says nothing
//! about depth.

use crate::{
    Bench, Error, ROUNDS,
    crew::WorkerGroup,
    figures::rate,
    house::BenchNode,
    machine::peak_memory_mib,
    measure::Side::{Ours, Raw},
    place::{SHALLOW, Site},
    table::thousands,
};
use std::sync::Arc;

const SHALLOW_JOBS: usize = 10_000;

pub(crate) fn measure(bench: &mut Bench<'_>) -> Result<(), Error> {
    let deep = bench.settings.deep;
    let plan = Plan::of(deep);
    (bench.say)(&format!("handing over {} jobs …", thousands(deep as f64)));
    let (long, site) = bench.ours()?;
    bench.timed(long.submit_batches(deep))?;
    let long = reopened(bench, long, &site)?;

    for round in 0..ROUNDS {
        bench.say_round("the drain of a deep queue", round);
        let at_depth = slice(bench, &long, plan)?;
        bench.numbers.push(Ours, "drain_deep", at_depth);
        if round == 0 {
            bench.numbers.push(Ours, "peak_memory", peak_memory_mib()?);
        }
        let at_ease = short_slice(bench, plan)?;
        bench.numbers.push(Raw, "drain_deep", at_ease);
        bench.numbers.push(Ours, "drain_shallow", at_ease);
    }
    Ok(())
}

/// How much of it is drained at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) shallow: usize,
    slice: usize,
    slots: usize,
}

impl Plan {
    /// For a queue of 1,000,000: 8,000 of 10,000, with 2,000 slots. All the slices, and what the crew has in
    /// hand when each ends, are a small part of the long queue.
    pub(crate) fn of(deep: usize) -> Self {
        let shallow = SHALLOW_JOBS.min(deep / 10);
        Plan { shallow, slice: shallow * 4 / 5, slots: (shallow / 5).max(1) }
    }
}

fn short_slice(bench: &Bench<'_>, plan: Plan) -> Result<f64, Error> {
    let site = bench.place.fresh(SHALLOW)?;
    let short = bench.open(&site)?;
    bench.timed(short.submit_batches(plan.shallow))?;
    let short = reopened(bench, short, &site)?;
    slice(bench, &short, plan)
}

/// Closed, so that all of it is on the disk, and opened again: neither queue has a warm cache.
fn reopened(bench: &Bench<'_>, house: BenchNode, site: &Site) -> Result<BenchNode, Error> {
    drop(house);
    bench.runtime.block_on(site.settle())?;
    bench.open(site)
}

fn slice(bench: &Bench<'_>, house: &BenchNode, plan: Plan) -> Result<f64, Error> {
    let drain = async {
        let crew = WorkerGroup::start(house, plan.slots, Arc::new(|_| ())).await?;
        let settled = crew.until(plan.slice).await?;
        Ok((crew, settled))
    };
    let ((crew, settled), took) = bench.timed(drain)?;
    bench.timed(crew.stop())?;
    Ok(rate(settled, took))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DEEP_MIN;

    #[test]
    fn the_long_queue_does_not_run_empty() {
        for deep in [DEEP_MIN, 5_000, 123_456, 1_000_000, 50_000_000] {
            let plan = Plan::of(deep);
            let drained = ROUNDS * (plan.slice + 2 * plan.slots);
            assert!(drained < deep, "{deep}: {plan:?}");
            assert!(plan.slice > 0 && plan.slice <= plan.shallow, "{deep}: {plan:?}");
        }
    }
}
