//! How many jobs a second: handed over, drained, and living their whole lives.

use crate::{
    Bench, Error, Group, Measure, RAW_BATCH, ROUNDS, Rounds, Unit,
    crew::{Crew, SLOTS},
    figures::{percentile_ms, rate},
    house::{House, TASKS},
    load::at_half_load,
    measure::goal_of,
    raw::raw_jobs,
};
use std::sync::Arc;

/// Ours and raw, round by round.
#[derive(Default)]
struct Both {
    ours: Rounds,
    raw: Rounds,
}

#[derive(Default)]
struct Found {
    one_by_one: Both,
    batches: Both,
    drain: Both,
    lives: Both,
    lives_one_by_one: Rounds,
    saturated_p99: Rounds,
    half_load_p50: Rounds,
    half_load_p99: Rounds,
    queued_bytes: Both,
    ended_bytes: Both,
    /// Raw inserts with as many in a commit as one-by-one callers can share.
    raw_by_64: Rounds,
}

/// One thing that ours and the twin do in turns.
struct Part {
    name: &'static str,
    ours: Step,
    raw: Step,
}

type Step = fn(&mut Found, &Bench<'_>) -> Result<(), Error>;

const PARTS: [Part; 4] = [
    Part { name: "batches and their drain", ours: Found::our_backlog, raw: Found::raw_backlog },
    Part { name: "submits one by one", ours: Found::our_submits, raw: Found::raw_submits },
    Part { name: "whole lives", ours: Found::our_lives, raw: Found::raw_lives },
    Part { name: "submits under load", ours: Found::our_load, raw: |_, _| Ok(()) },
];

pub(crate) fn measure(bench: &mut Bench<'_>) -> Result<Vec<Measure>, Error> {
    let mut found = Found::default();
    for round in 0..ROUNDS {
        for Part { name, ours, raw } in PARTS {
            bench.say_round(name, round);
            // Who goes first changes, so that nobody always finds the disk busy with the other's files.
            let turns = if round % 2 == 0 { [ours, raw] } else { [raw, ours] };
            turns.into_iter().try_for_each(|step| step(&mut found, bench))?;
        }
    }
    Ok(found.measures())
}

impl Found {
    /// Handed over in batches, then drained; between the two the store is closed and weighed.
    fn our_backlog(&mut self, bench: &Bench<'_>) -> Result<(), Error> {
        let jobs = bench.settings.jobs;
        let (house, site) = bench.ours()?;
        let (_, took) = bench.timed(house.submit_batches(jobs))?;
        self.batches.ours.push(rate(jobs, took));
        drop(house);
        self.queued_bytes.ours.push(bench.bytes_per_job(&site)?);

        let house = bench.open(&site)?;
        let (_, took) = bench.timed(lives(&house, async { Ok(()) }, jobs))?;
        self.drain.ours.push(rate(jobs, took));
        drop(house);
        self.ended_bytes.ours.push(bench.bytes_per_job(&site)?);
        Ok(())
    }

    fn our_submits(&mut self, bench: &Bench<'_>) -> Result<(), Error> {
        let jobs = bench.settings.jobs;
        let (house, _) = bench.ours()?;
        let (_, took) = bench.timed(house.submit_one_by_one(jobs))?;
        self.one_by_one.ours.push(rate(jobs, took));
        Ok(())
    }

    fn our_lives(&mut self, bench: &Bench<'_>) -> Result<(), Error> {
        let jobs = bench.settings.jobs;
        let (house, _) = bench.ours()?;
        let (_, took) = bench.timed(lives(&house, house.submit_batches(jobs), jobs))?;
        self.lives.ours.push(rate(jobs, took));
        Ok(())
    }

    /// As much as 64 tasks can, and then half of that: in the same round, because what a machine can do
    /// changes with whoever else is on it.
    fn our_load(&mut self, bench: &Bench<'_>) -> Result<(), Error> {
        let jobs = bench.settings.jobs;
        let (house, _) = bench.ours()?;
        let (times, took) = bench.timed(lives(&house, house.submit_one_by_one(jobs), jobs))?;
        drop(house);
        self.lives_one_by_one.push(rate(jobs, took));
        self.saturated_p99.push(percentile_ms(&times, 99.0));
        let times = at_half_load(bench, rate(jobs, took))?;
        self.half_load_p50.push(percentile_ms(&times, 50.0));
        self.half_load_p99.push(percentile_ms(&times, 99.0));
        Ok(())
    }

    fn raw_backlog(&mut self, bench: &Bench<'_>) -> Result<(), Error> {
        let (jobs, new) = (bench.settings.jobs, raw_jobs(bench.settings.jobs));
        let (mut raw, site) = bench.raw()?;
        let (_, took) = bench.timed(raw.submit(&new, RAW_BATCH))?;
        self.batches.raw.push(rate(jobs, took));
        self.one_by_one.raw.push(rate(jobs, took));
        (raw, _) = bench.timed(raw.reopened(&site))?;
        self.queued_bytes.raw.push(bench.bytes_per_job(&site)?);

        let (_, took) = bench.timed(raw.drain(jobs))?;
        self.drain.raw.push(rate(jobs, took));
        drop(raw);
        self.ended_bytes.raw.push(bench.bytes_per_job(&site)?);
        Ok(())
    }

    fn raw_submits(&mut self, bench: &Bench<'_>) -> Result<(), Error> {
        let new = raw_jobs(bench.settings.jobs);
        let (mut raw, _) = bench.raw()?;
        let (_, took) = bench.timed(raw.submit(&new, TASKS))?;
        self.raw_by_64.push(rate(new.len(), took));
        Ok(())
    }

    fn raw_lives(&mut self, bench: &Bench<'_>) -> Result<(), Error> {
        let new = raw_jobs(bench.settings.jobs);
        let (mut raw, _) = bench.raw()?;
        let (_, took) = bench.timed(raw.lives(&new))?;
        self.lives.raw.push(rate(new.len(), took));
        Ok(())
    }

    fn measures(self) -> Vec<Measure> {
        let by_64 = Both { ours: self.one_by_one.ours.clone(), raw: self.raw_by_64 };
        let one_by_one = Both { ours: self.lives_one_by_one, raw: self.lives.raw.clone() };
        let time = |key, what: &str, ours| Measure {
            key,
            group: Group::Latency,
            what: what.into(),
            unit: Unit::Milliseconds,
            ours,
            raw: None,
            goal: goal_of(key),
        };
        let speed = |key, what, both| of(key, Group::Throughput, what, Unit::JobsPerSecond, both);
        let size = |key, what, both| of(key, Group::Size, what, Unit::BytesPerJob, both);
        vec![
            speed("whole_lives", "whole lives", self.lives),
            speed("whole_lives_one_by_one", "  handed over one by one", one_by_one),
            speed("submit_batches", "submit, batches of 1,000", self.batches),
            speed("submit_one_by_one", "submit, one by one, 64 tasks", self.one_by_one),
            speed("submit_one_by_one_64", "  beside raw commits of 64", by_64),
            speed("drain", "drain a backlog", self.drain),
            time("submit_p50_half_load", "submit p50, half load", self.half_load_p50),
            time("submit_p99_half_load", "submit p99, half load", self.half_load_p99),
            time("submit_p99_saturated", "submit p99, saturated", self.saturated_p99),
            size("bytes_queued", "on disk, queued", self.queued_bytes),
            size("bytes_ended", "on disk, ended", self.ended_bytes),
        ]
    }
}

/// Lets a crew settle `jobs` while `producers` are at work, and gives what these came to.
async fn lives<T>(
    house: &House,
    producers: impl Future<Output = Result<T, Error>>,
    jobs: usize,
) -> Result<T, Error> {
    let crew = Crew::start(house, SLOTS, Arc::new(|_| ())).await?;
    let (produced, _) = tokio::try_join!(producers, crew.until(jobs))?;
    crew.stop().await?;
    Ok(produced)
}

fn of(key: &'static str, group: Group, what: &str, unit: Unit, both: Both) -> Measure {
    let (ours, raw) = (both.ours, Some(both.raw));
    Measure { key, group, what: what.into(), unit, ours, raw, goal: goal_of(key) }
}
