//! How many jobs a second: handed over, drained, and living their whole lives.

use crate::{
    Bench, Error, ROUNDS,
    crew::{SLOTS, WorkerGroup},
    figures::{percentile_ms, rate},
    house::{BenchNode, TASKS},
    load::at_half_load,
    measure::Side::{Ours, Raw},
    raw::{RAW_BATCH, raw_jobs},
};
use std::sync::Arc;

type Step = fn(&mut Bench<'_>) -> Result<(), Error>;

/// What ours and the twin do in turns.
const PARTS: [(&str, Step, Step); 4] = [
    ("batches and their drain", our_backlog, raw_backlog),
    ("submits one by one", our_submits, raw_submits),
    ("whole lives", our_lives, raw_lives),
    ("submits under load", our_load, |_| Ok(())),
];

pub(crate) fn measure(bench: &mut Bench<'_>) -> Result<(), Error> {
    for round in 0..ROUNDS {
        for (name, ours, raw) in PARTS {
            bench.say_round(name, round);
            // Who goes first changes, so that nobody always finds the disk busy with the other's files.
            let turns = if round % 2 == 0 { [ours, raw] } else { [raw, ours] };
            turns.into_iter().try_for_each(|step| step(bench))?;
        }
    }
    Ok(())
}

/// Handed over in batches, then drained; between the two the store is closed and weighed.
fn our_backlog(bench: &mut Bench<'_>) -> Result<(), Error> {
    let jobs = bench.settings.jobs;
    let (house, site) = bench.ours()?;
    bench.race(Ours, &["submit_batches"], house.submit_batches(jobs))?;
    drop(house);
    bench.weigh(Ours, "bytes_queued", &site)?;

    let house = bench.open(&site)?;
    bench.race(Ours, &["drain"], lives(&house, async { Ok(()) }, jobs))?;
    drop(house);
    bench.weigh(Ours, "bytes_ended", &site)
}

fn raw_backlog(bench: &mut Bench<'_>) -> Result<(), Error> {
    let new = raw_jobs(bench.settings.jobs);
    let (mut raw, site) = bench.raw()?;
    bench.race(Raw, &["submit_batches", "submit_one_by_one"], raw.submit(&new, RAW_BATCH))?;
    (raw, _) = bench.timed(raw.reopened(&site))?;
    bench.weigh(Raw, "bytes_queued", &site)?;

    bench.race(Raw, &["drain"], raw.drain(new.len()))?;
    drop(raw);
    bench.weigh(Raw, "bytes_ended", &site)
}

fn our_submits(bench: &mut Bench<'_>) -> Result<(), Error> {
    let (house, _) = bench.ours()?;
    let submits = house.submit_one_by_one(bench.settings.jobs);
    bench.race(Ours, &["submit_one_by_one", "submit_one_by_one_64"], submits).map(drop)
}

/// With as many in a commit as one-by-one callers can share.
fn raw_submits(bench: &mut Bench<'_>) -> Result<(), Error> {
    let new = raw_jobs(bench.settings.jobs);
    let (mut raw, _) = bench.raw()?;
    bench.race(Raw, &["submit_one_by_one_64"], raw.submit(&new, TASKS))
}

fn our_lives(bench: &mut Bench<'_>) -> Result<(), Error> {
    let jobs = bench.settings.jobs;
    let (house, _) = bench.ours()?;
    bench.race(Ours, &["whole_lives"], lives(&house, house.submit_batches(jobs), jobs))
}

fn raw_lives(bench: &mut Bench<'_>) -> Result<(), Error> {
    let new = raw_jobs(bench.settings.jobs);
    let (mut raw, _) = bench.raw()?;
    bench.race(Raw, &["whole_lives", "whole_lives_one_by_one"], raw.lives(&new))
}

/// As much as 64 tasks can, and then half of that: in the same round, because what a machine can do
/// changes with whoever else is on it.
fn our_load(bench: &mut Bench<'_>) -> Result<(), Error> {
    let jobs = bench.settings.jobs;
    let (house, _) = bench.ours()?;
    let (times, took) = bench.timed(lives(&house, house.submit_one_by_one(jobs), jobs))?;
    drop(house);
    let capacity = rate(jobs, took);
    bench.numbers.push(Ours, "whole_lives_one_by_one", capacity);
    bench.numbers.push(Ours, "submit_p99_saturated", percentile_ms(&times, 99.0));
    let times = at_half_load(bench, capacity)?;
    bench.numbers.push_times(Ours, ["submit_p50_half_load", "submit_p99_half_load"], &times);
    Ok(())
}

/// Lets a crew settle `jobs` while `producers` are at work, and gives what these came to.
async fn lives<T>(
    house: &BenchNode,
    producers: impl Future<Output = Result<T, Error>>,
    jobs: usize,
) -> Result<T, Error> {
    let crew = WorkerGroup::start(house, SLOTS, Arc::new(|_| ())).await?;
    let (produced, _) = tokio::try_join!(producers, crew.until(jobs))?;
    crew.stop().await?;
    Ok(produced)
}
