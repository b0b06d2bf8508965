//! How soon a job starts when nobody else wants anything, beside one durable commit.

use crate::{
    Bench, Error, ROUNDS,
    crew::{SLOTS, Work, WorkerGroup},
    error::counted,
    house::{BenchNode, sent_at},
    measure::Side,
    place::Site,
    raw::{Raw, raw_jobs},
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
        bench.say_round("the start of jobs in an idle system", round);
        let (nodes, (mut raw, _)) = (nodes(bench)?, bench.raw()?);
        let ((ours, raw), _) = bench.timed(in_turns(&nodes, &mut raw, jobs))?;
        bench.numbers.push_times(Side::Ours, KEYS, &ours);
        bench.numbers.push_times(Side::Raw, KEYS, &raw);
    }
    Ok(())
}

/// Who is handed the jobs, and who runs them. One node does both where a store has only one; otherwise a
/// job has to cross from one to another.
fn nodes(bench: &Bench<'_>) -> Result<[BenchNode; 2], Error> {
    let (door, site) = bench.ours()?;
    Ok(match &site {
        Site::File(_) => [door.clone(), door],
        Site::Schema(_) => [door, bench.open(&site)?],
    })
}

/// From handing over to the handler's first line; and one raw job in one commit, which is what a disk needs
/// for any promise. They take turns within each gap, so that whatever disturbs the disk disturbs both.
async fn in_turns(
    [house, floor]: &[BenchNode; 2],
    raw: &mut Raw,
    jobs: usize,
) -> Result<(Vec<Duration>, Vec<Duration>), Error> {
    let (times, new) = (Arc::new(Mutex::new(Vec::new())), raw_jobs(jobs));
    let crew = WorkerGroup::start(floor, SLOTS, noting(floor, &times)).await?;
    let (began, mut raw_times) = (house.now(), Vec::new());
    for (number, job) in new.chunks(1).enumerate() {
        let due = began + GAP * number as u32;
        sleep(due.saturating_sub(house.now())).await;
        house.submit(number, house.now()).await?;
        sleep((due + GAP / 2).saturating_sub(house.now())).await;
        let committing = house.now();
        raw.submit(job, 1).await?;
        raw_times.push(house.now() - committing);
    }
    crew.until(jobs).await?;
    crew.stop().await?;
    let times = std::mem::take(&mut *times.lock().expect(UNPOISONED));
    counted("started jobs", jobs, times.len())?;
    Ok((times, raw_times))
}

fn noting(house: &BenchNode, times: &Arc<Mutex<Vec<Duration>>>) -> Work {
    let (house, times) = (house.clone(), times.clone());
    Arc::new(move |payload| {
        let waited = sent_at(payload).map(|sent| house.now() - sent);
        times.lock().expect(UNPOISONED).extend(waited);
    })
}

const UNPOISONED: &str = "no handler of ours panics";
