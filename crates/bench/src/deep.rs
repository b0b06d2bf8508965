//! Whether a long queue is slower than a short one, and how much memory it takes.
//!
//! Both queues are drained by the same crew, a slice of each in turns. Only the first part of a short queue is
//! measured, as of the long one: when a queue runs empty its workers wait for each other, which says nothing
//! about depth.

use crate::{
    Bench, Error, Group, Measure, ROUNDS, Rounds, Unit, crew::Crew, figures::rate, house::House,
    machine::peak_memory_mib, measure::goal_of, site::Site, table::thousands,
};
use std::sync::Arc;

/// The short queue.
const SHALLOW: usize = 10_000;

pub(crate) fn measure(bench: &mut Bench<'_>) -> Result<Vec<Measure>, Error> {
    let deep = bench.settings.deep;
    let plan = Plan::of(deep);
    (bench.say)(&format!("handing over {} jobs …", thousands(deep as f64)));
    let (long, site) = bench.ours()?;
    bench.timed(long.submit_batches(deep))?;
    let long = reopened(bench, long, &site)?;

    let (mut at_depth, mut at_ease) = (Rounds::default(), Rounds::default());
    bench.say_round("the drain of a deep queue", 0);
    at_depth.push(slice(bench, &long, plan)?);
    let peak = peak_memory_mib()?;
    at_ease.push(short_slice(bench, plan)?);
    for round in 1..ROUNDS {
        bench.say_round("the drain of a deep queue", round);
        at_depth.push(slice(bench, &long, plan)?);
        at_ease.push(short_slice(bench, plan)?);
    }
    Ok(measures(deep, plan, at_depth, at_ease, peak))
}

/// How much of it is drained at a time.
#[derive(Clone, Copy, Debug)]
struct Plan {
    shallow: usize,
    slice: usize,
    slots: usize,
}

impl Plan {
    /// For a queue of 1,000,000: 8,000 of 10,000, with 2,000 slots. All the slices, and what the crew has in
    /// hand when each ends, are a small part of the long queue.
    fn of(deep: usize) -> Self {
        let shallow = SHALLOW.min(deep / 10);
        Plan { shallow, slice: shallow * 4 / 5, slots: (shallow / 5).max(1) }
    }
}

fn short_slice(bench: &Bench<'_>, plan: Plan) -> Result<f64, Error> {
    let site = bench.place.shallow()?;
    let short = bench.open(&site)?;
    bench.timed(short.submit_batches(plan.shallow))?;
    let short = reopened(bench, short, &site)?;
    slice(bench, &short, plan)
}

/// Closed, which puts everything on the disk, and opened again: neither queue has anything in memory, nor the
/// system anything left to write.
fn reopened(bench: &Bench<'_>, house: House, site: &Site) -> Result<House, Error> {
    drop(house);
    bench.runtime.block_on(site.settle())?;
    bench.open(site)
}

/// Drains the first part of what waits, and says how fast.
fn slice(bench: &Bench<'_>, house: &House, plan: Plan) -> Result<f64, Error> {
    let drain = async {
        let crew = Crew::start(house, plan.slots, Arc::new(|_| ())).await?;
        let settled = crew.until(plan.slice).await?;
        Ok((crew, settled))
    };
    let ((crew, settled), took) = bench.timed(drain)?;
    bench.timed(crew.stop())?;
    Ok(rate(settled, took))
}

fn measures(deep: usize, plan: Plan, at_depth: Rounds, at_ease: Rounds, peak: f64) -> Vec<Measure> {
    let [long, short] = [deep, plan.shallow].map(|jobs| thousands(jobs as f64));
    let speed = |key, what, ours, raw| Measure {
        key,
        group: Group::Depth,
        what,
        unit: Unit::JobsPerSecond,
        ours,
        raw,
        goal: goal_of(key),
    };
    let memory = Measure {
        key: "peak_memory",
        group: Group::Size,
        what: format!("peak memory, {long} queued"),
        unit: Unit::Mebibytes,
        ours: Rounds(vec![peak]),
        raw: None,
        goal: goal_of("peak_memory"),
    };
    vec![
        speed("drain_shallow", format!("drain, {short} queued"), at_ease.clone(), None),
        speed("drain_deep", format!("drain, {long} queued *"), at_depth, Some(at_ease)),
        memory,
    ]
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
