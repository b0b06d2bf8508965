//! How long a submit takes at half of the capacity.

use crate::{
    Bench, Error,
    bench_node::{BenchNode, TASKS, join_all},
    worker_group::lives,
};
use std::time::Duration;
use tokio::time::sleep;

const LOAD_MAX: Duration = Duration::from_secs(4);

pub(crate) fn at_half_load(bench: &Bench<'_>, capacity: f64) -> Result<Vec<Duration>, Error> {
    let pace = Pace::new(capacity / 2.0, bench.settings.jobs);
    let (bench_node, _) = bench.open_own()?;
    let (times, _) = bench.timed(submit_steadily(&bench_node, pace))?;
    Ok(times)
}

#[derive(Clone, Copy)]
struct Pace {
    /// The time between two jobs of one task.
    gap: Duration,
    jobs_each: u32,
}

impl Pace {
    fn new(jobs_per_second: f64, jobs_max: usize) -> Self {
        let jobs = (jobs_per_second * LOAD_MAX.as_secs_f64()).min(jobs_max as f64);
        let gap = Duration::from_secs_f64(TASKS as f64 / jobs_per_second.max(1.0));
        Pace { gap, jobs_each: (jobs / TASKS as f64).ceil() as u32 }
    }
}

async fn submit_steadily(bench_node: &BenchNode, pace: Pace) -> Result<Vec<Duration>, Error> {
    let producers = async {
        let started = bench_node.now();
        let tasks = (0..TASKS as u32).map(|number| {
            let first = started + pace.gap * number / TASKS as u32;
            one_producer(bench_node.clone(), first, pace)
        });
        join_all(tasks).await
    };
    let times = lives(bench_node, producers, TASKS * pace.jobs_each as usize).await?;
    Ok(times.concat())
}

async fn one_producer(
    bench_node: BenchNode,
    first: Duration,
    pace: Pace,
) -> Result<Vec<Duration>, Error> {
    let mut times = Vec::new();
    for number in 0..pace.jobs_each {
        let due = first + pace.gap * number;
        let early = due.saturating_sub(bench_node.now());
        // A job that is late because the one before took long has waited since it was due; one that
        // is late because a timer is coarse has not.
        let from = if early.is_zero() {
            due
        } else {
            sleep(early).await;
            bench_node.now()
        };
        bench_node.submit(number as usize, from).await?;
        times.push(bench_node.now() - from);
    }
    Ok(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_keeps_its_rate_and_its_job_limit() {
        let pace = Pace::new(6_400.0, 1_000_000);
        assert_eq!((pace.gap, pace.jobs_each), (Duration::from_millis(10), 400));
        assert_eq!(Pace::new(6_400.0, 640).jobs_each, 10);
        assert_eq!(Pace::new(0.0, 640).jobs_each, 0);
    }
}
