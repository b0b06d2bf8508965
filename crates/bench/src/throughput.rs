//! How many jobs a second: submitted, drained, and run as whole lives.

use crate::{
    Bench, Error, ROUNDS,
    bench_node::TASKS,
    figures::{percentile_ms, rate},
    load::at_half_load,
    measure::Side::{self, Ours},
    raw::{RAW_BATCH, RawStore, raw_jobs},
    worker_group::lives,
};

type Step = fn(&mut Bench<'_>) -> Result<(), Error>;

/// The parts that ours and raw run in turns.
const PARTS: [(&str, Step, Step); 4] = [
    ("batches and their drain", our_backlog, raw_backlog),
    ("submits one by one", our_submits, raw_submits),
    ("whole lives", our_lives, raw_lives),
    ("submits under load", our_load, |_| Ok(())),
];

pub(crate) fn measure(bench: &mut Bench<'_>) -> Result<(), Error> {
    for round in 0..ROUNDS {
        for (name, ours, raw) in PARTS {
            bench.report_round(name, round);
            // The order alternates, so that neither side always finds the disk busy with the
            // other's files.
            let turns = if round % 2 == 0 { [ours, raw] } else { [raw, ours] };
            turns.into_iter().try_for_each(|step| step(bench))?;
        }
    }
    Ok(())
}

/// Submits in batches, then drains; in between the store is closed and its size recorded.
fn our_backlog(bench: &mut Bench<'_>) -> Result<(), Error> {
    let jobs = bench.settings.jobs;
    let (bench_node, location) = bench.open_own()?;
    bench.time_jobs(Ours, &["submit_batches"], bench_node.submit_batches(jobs))?;
    drop(bench_node);
    bench.record_size(Ours, "bytes_queued", &location)?;

    let bench_node = bench.open(&location)?;
    bench.time_jobs(Ours, &["drain"], lives(&bench_node, async { Ok(()) }, jobs))?;
    drop(bench_node);
    bench.record_size(Ours, "bytes_ended", &location)
}

fn raw_backlog(bench: &mut Bench<'_>) -> Result<(), Error> {
    let new = raw_jobs(bench.settings.jobs);
    let (mut raw, location) = bench.open_raw()?;
    bench.time_jobs(
        Side::RawStore,
        &["submit_batches", "submit_one_by_one"],
        raw.submit(&new, RAW_BATCH),
    )?;
    drop(raw); // which moves the log of SQLite into the file
    (raw, _) = bench.timed(RawStore::open(&location))?;
    bench.record_size(Side::RawStore, "bytes_queued", &location)?;

    bench.time_jobs(Side::RawStore, &["drain"], raw.drain(new.len()))?;
    drop(raw);
    bench.record_size(Side::RawStore, "bytes_ended", &location)
}

fn our_submits(bench: &mut Bench<'_>) -> Result<(), Error> {
    let (bench_node, _) = bench.open_own()?;
    let submits = bench_node.submit_one_by_one(bench.settings.jobs);
    bench.time_jobs(Ours, &["submit_one_by_one", "submit_one_by_one_64"], submits).map(drop)
}

/// With as many jobs in a commit as one-by-one callers can share.
fn raw_submits(bench: &mut Bench<'_>) -> Result<(), Error> {
    let new = raw_jobs(bench.settings.jobs);
    let (mut raw, _) = bench.open_raw()?;
    bench.time_jobs(Side::RawStore, &["submit_one_by_one_64"], raw.submit(&new, TASKS))
}

fn our_lives(bench: &mut Bench<'_>) -> Result<(), Error> {
    let jobs = bench.settings.jobs;
    let (bench_node, _) = bench.open_own()?;
    bench.time_jobs(
        Ours,
        &["whole_lives"],
        lives(&bench_node, bench_node.submit_batches(jobs), jobs),
    )
}

fn raw_lives(bench: &mut Bench<'_>) -> Result<(), Error> {
    let new = raw_jobs(bench.settings.jobs);
    let (mut raw, _) = bench.open_raw()?;
    bench.time_jobs(Side::RawStore, &["whole_lives", "whole_lives_one_by_one"], raw.lives(&new))
}

/// Runs at full capacity of 64 tasks, and then at half of it. Both in the same round, because a
/// machine's capacity changes with its other load.
fn our_load(bench: &mut Bench<'_>) -> Result<(), Error> {
    let jobs = bench.settings.jobs;
    let (bench_node, _) = bench.open_own()?;
    let (times, took) =
        bench.timed(lives(&bench_node, bench_node.submit_one_by_one(jobs), jobs))?;
    drop(bench_node);
    let capacity = rate(jobs, took);
    bench.numbers.push(Ours, "whole_lives_one_by_one", capacity);
    bench.numbers.push(Ours, "submit_p99_saturated", percentile_ms(&times, 99.0));
    let times = at_half_load(bench, capacity)?;
    bench.numbers.push_times(Ours, ["submit_p50_half_load", "submit_p99_half_load"], &times);
    Ok(())
}
