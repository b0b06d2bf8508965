//! How soon a job starts when nobody else wants anything, beside one durable commit.

use crate::{
    Bench, Error, Group, Measure, ROUNDS, Rounds, Unit,
    crew::{Crew, FULL},
    figures::percentile_ms,
    house::{House, sent_at},
    measure::goal_of,
    raw::raw_jobs,
};
use std::{
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};
use tokio::time::sleep;

/// 100 jobs a second.
const GAP: Duration = Duration::from_millis(10);

#[derive(Default)]
struct Found {
    ours_p50: Rounds,
    ours_p99: Rounds,
    raw_p50: Rounds,
    raw_p99: Rounds,
}

pub(crate) fn measure(bench: &mut Bench<'_>) -> Result<Vec<Measure>, Error> {
    let jobs = (bench.settings.jobs / 100).clamp(20, 300);
    let mut found = Found::default();
    for round in 0..ROUNDS {
        bench.say_round("the start of jobs in an idle system", round);
        let (house, _) = bench.ours()?;
        let (times, _) = bench.timed(starts(&house, jobs))?;
        found.ours_p50.push(percentile_ms(&times, 50.0));
        found.ours_p99.push(percentile_ms(&times, 99.0));
        drop(house);
        let times = raw_commits(bench, jobs)?;
        found.raw_p50.push(percentile_ms(&times, 50.0));
        found.raw_p99.push(percentile_ms(&times, 99.0));
    }
    Ok(found.measures())
}

/// From handing over to the handler's first line.
async fn starts(house: &House, jobs: usize) -> Result<Vec<Duration>, Error> {
    let times = Arc::new(Mutex::new(Vec::new()));
    let (started, clock) = (times.clone(), house.clone());
    let work = move |payload: &str| {
        let waited = sent_at(payload).map(|sent| clock.now() - sent);
        started.lock().expect(UNPOISONED).extend(waited);
    };
    let mut crew = Crew::start(house, FULL, Arc::new(work));
    let began = house.now();
    for number in 0..jobs {
        sleep((began + GAP * number as u32).saturating_sub(house.now())).await;
        house.submit(number, house.now()).await?;
    }
    crew.until(jobs).await?;
    crew.stop().await?;
    let times = std::mem::take(&mut *times.lock().expect(UNPOISONED));
    let (what, found) = ("started jobs", times.len());
    if found == jobs { Ok(times) } else { Err(Error::Miscounted { what, expected: jobs, found }) }
}

const UNPOISONED: &str = "no handler of ours panics";

/// One job in one commit, at the same pace: what a disk needs for any promise.
fn raw_commits(bench: &Bench<'_>, jobs: usize) -> Result<Vec<Duration>, Error> {
    let (mut raw, _) = bench.raw()?;
    let (new, began, mut times) = (raw_jobs(jobs), bench.now(), Vec::new());
    for (number, job) in new.chunks(1).enumerate() {
        thread::sleep((began + GAP * number as u32).saturating_sub(bench.now()));
        times.push(bench.timed_raw(|| raw.submit(job, 1))?);
    }
    Ok(times)
}

impl Found {
    fn measures(self) -> Vec<Measure> {
        let of = |key, what: &str, ours, raw| Measure {
            key,
            group: Group::Latency,
            what: what.into(),
            unit: Unit::Milliseconds,
            ours,
            raw: Some(raw),
            goal: goal_of(key),
        };
        vec![
            of("idle_start_p50", "idle, submit to start, p50", self.ours_p50, self.raw_p50),
            of("idle_start_p99", "idle, submit to start, p99", self.ours_p99, self.raw_p99),
        ]
    }
}
