//! Whether claims stay quick while another client holds a transaction open. Meanwhile vacuum cannot
//! remove dead rows, and a queue that walks over them becomes slower by the minute.
//!
//! The load with its workers is steady, first without and then with the open transaction.

use crate::{
    Bench, Error, RunFolder, Settings,
    bench_node::{BenchNode, JOB_TYPE, join_all},
    error::{failed, in_database},
    figures::Times,
    run_folder::StoreLocation,
};
use engine::{ClaimId, ClaimRequest, Ending, EndingDraft, JobType, Outcome, Scope, WorkerId};
use platform::Report as Settled;
use std::time::Duration;
use store::Claimed;
use tokio::time::sleep;
use tokio_postgres::Client;

/// Jobs a second.
pub const SOAK_JOBS_PER_SECOND: u32 = 200;
/// The largest ratio of claim times with the open transaction to those without.
pub const SOAK_RATIO_MAX: f64 = 5.0;
/// How long the load runs at most before the transaction is opened; else for a quarter of its time.
const BEFORE_MAX: Duration = Duration::from_secs(120);
const SPELL: Duration = Duration::from_secs(60);

/// Producers, each waiting for its answer: one alone would be slower than the load.
const PRODUCERS: u32 = 16;
/// Workers that claim side by side, how many jobs each takes, and how long it waits when there are
/// none.
const WORKERS: u32 = 4;
const CLAIM: usize = 10;
const EMPTY_CLAIM_PAUSE: Duration = Duration::from_millis(5);

/// The results of a soak.
#[derive(Clone, Copy, Debug)]
pub struct Soak {
    /// Without the transaction.
    pub before: Times,
    /// With it.
    pub during: Times,
    /// With it, in the last minute, when most dead rows have piled up.
    pub last: Times,
}

impl Soak {
    /// The p99 of claims with the transaction, over that without.
    pub fn ratio(&self) -> f64 {
        self.during.p99 / self.before.p99
    }

    /// Whether that is within the target.
    pub fn is_met(&self) -> bool {
        self.ratio() <= SOAK_RATIO_MAX
    }
}

/// Runs for `during` with the transaction open, and for a while before; reports to `progress`.
/// Blocking.
pub fn soak(
    run_folder: &RunFolder,
    during: Duration,
    progress: &mut dyn FnMut(&str),
) -> Result<Soak, Error> {
    let bench = Bench::new(Settings::default(), run_folder, progress)?;
    let (bench_node, location) = bench.open_own()?;
    let Bench { runtime, progress, .. } = bench;
    runtime.block_on(async {
        progress("claims without the transaction");
        let before = measure_spells(&bench_node, (during / 4).min(BEFORE_MAX), progress).await?;
        progress("claims while a transaction is held open");
        let measured = measure_spells(&bench_node, during, progress);
        let during = beside_open_transaction(&location, measured).await?;
        let last = during.last().map(|spell| Times::of(spell));
        let (before, during) = (Times::of(&before.concat()), Times::of(&during.concat()));
        Ok(Soak { before, during, last: last.unwrap_or(during) })
    })
}

/// Does `work` beside a forgotten transaction, and checks that it was open all the time.
async fn beside_open_transaction<T>(
    location: &StoreLocation,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let StoreLocation::BenchSchema(schema) = location else {
        let reason = "a transaction can only be held open in PostgreSQL";
        return Err(Error::Unmeasurable(reason.into()));
    };
    let client = schema.connect("").await?;
    let begun = client.batch_execute("begin isolation level repeatable read").await;
    begun.map_err(in_database("opening a transaction"))?;
    let opened = number(&client).await?;
    let done = work.await?;
    let is_same = number(&client).await? == opened;
    let ended = client.batch_execute("rollback").await;
    ended.map_err(in_database("ending a transaction"))?;
    if is_same {
        return Ok(done);
    }
    let reason = "the transaction to be held open was ended by another session";
    Err(Error::Unmeasurable(reason.into()))
}

/// A transaction with a number counts as one that writes, and keeps all rows that die after its
/// start.
async fn number(client: &Client) -> Result<String, Error> {
    let row = client.query_one("select pg_current_xact_id()::text", &[]).await;
    Ok(row.map_err(in_database("looking at a transaction"))?.get(0))
}

/// Loads the node for `length`, and returns how long the claims of each minute took.
async fn measure_spells(
    bench_node: &BenchNode,
    length: Duration,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<Vec<Duration>>, Error> {
    let (end, mut all) = (bench_node.now() + length, Vec::new());
    while bench_node.now() < end {
        let times = spell(bench_node, end.min(bench_node.now() + SPELL)).await?;
        let Times { count, p50, p99 } = Times::of(&times);
        progress(&format!("  {count} claims, p50 {p50:.2} ms, p99 {p99:.2} ms"));
        all.push(times);
    }
    Ok(all)
}

async fn spell(bench_node: &BenchNode, end: Duration) -> Result<Vec<Duration>, Error> {
    let producers = (0..PRODUCERS).map(|_| producer(bench_node.clone(), end));
    let workers = (0..WORKERS).map(|number| worker(bench_node.clone(), number, end));
    let (_, times) = tokio::try_join!(join_all(producers), join_all(workers))?;
    Ok(times.concat())
}

/// Submits at a steady rate. A job that is late because the one before took long is submitted at
/// once.
async fn producer(bench_node: BenchNode, end: Duration) -> Result<(), Error> {
    let gap = Duration::from_secs(PRODUCERS.into()) / SOAK_JOBS_PER_SECOND;
    let (mut due, mut number) = (bench_node.now(), 0);
    while due.max(bench_node.now()) < end {
        sleep(due.saturating_sub(bench_node.now())).await;
        bench_node.submit(number, bench_node.now()).await?;
        (due, number) = (due + gap, number + 1);
    }
    Ok(())
}

/// Claims and settles, and returns how long each claim took that got jobs.
async fn worker(bench_node: BenchNode, number: u32, end: Duration) -> Result<Vec<Duration>, Error> {
    let mut times = Vec::new();
    while bench_node.now() < end {
        let started = bench_node.now();
        let claimed = bench_node.node.claim(&Scope::All, claim_request(number, started)).await;
        let claimed = claimed.map_err(failed("claiming"))?;
        if claimed.is_empty() {
            sleep(EMPTY_CLAIM_PAUSE).await;
            continue;
        }
        times.push(bench_node.now() - started);
        settle(&bench_node, claimed).await?;
    }
    Ok(times)
}

fn claim_request(worker: u32, at: Duration) -> ClaimRequest {
    ClaimRequest {
        worker: WorkerId::parse(&format!("worker-{worker}")).expect("a short name is valid"),
        host: None,
        claim: ClaimId::parse(&format!("{worker}-{}", at.as_nanos()))
            .expect("a short name is valid"),
        job_types: vec![JobType::parse(JOB_TYPE).expect("a short name is valid")],
        max: CLAIM,
        lease: None,
    }
}

async fn settle(bench_node: &BenchNode, claimed: Vec<Claimed>) -> Result<(), Error> {
    let reports = claimed.iter().map(|claimed| Settled {
        id: claimed.job.id(),
        token: claimed.job.lease().expect("it was claimed").token,
        ending: completed(),
    });
    let results = bench_node.node.settle(&Scope::All, reports.collect()).await;
    for result in results.map_err(failed("settling"))? {
        result.map_err(failed("settling a job"))?;
    }
    Ok(())
}

fn completed() -> Ending {
    EndingDraft::new(Outcome::Completed).check().expect("the draft has no other field")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_claims_are_compared_with_slow_claims() {
        let of = |p99| Times { count: 1, p50: 1.0, p99 };
        let soak = |during| Soak { before: of(2.0), during: of(during), last: of(during) };
        assert!(soak(10.0).is_met() && !soak(10.5).is_met());
    }
}
