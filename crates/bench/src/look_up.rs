//! Whether the status of a job is found as quickly among millions of ended jobs as among ten
//! thousand.
//!
//! Most of the ended jobs are copies that the database makes of a real one: to end ten million
//! takes an hour, and the copies are never read. The jobs that are looked up have run, and lie
//! evenly among them.

use crate::{
    Bench, Error, ROUNDS,
    bench_node::BenchNode,
    database::BenchSchema,
    error::{failed, in_database},
    measure::Side,
    run_folder::{OURS, SHALLOW, StoreLocation},
    table::thousands,
    worker_group::lives,
};
use engine::{JobId, Scope};
use std::time::Duration;

const FEW: usize = 10_000;
/// How often real jobs and copies of them alternate.
const PORTIONS: usize = 10;
/// How many are looked up in a round, one after the other.
const LOOK_UPS: usize = 2_000;
/// The distance from one to the next; it is prime, so that all rounds together reach each job.
const STRIDE: usize = 7_919;
const COPIES: usize = 50_000;

/// Copies the youngest ended job. The ids carry the current time, and are as random as ours within
/// it.
const COPY: &str = "
with young as (
    select h.by_correlation, h.subject, h.envelope, h.payload, e.*
      from submission h join job_ended e on e.no = h.no order by h.no desc limit 1
), copy as (
    select young.no + i as copy_no, young.* from young, generate_series(1, $1::bigint) as i
), copied as (
    insert into submission (no, id, queue, by_correlation, subject, envelope, payload)
    select copy_no, (lpad(to_hex((extract(epoch from clock_timestamp()) * 1000)::bigint), 12, '0')
        || '7' || substr(md5(copy_no::text), 1, 3) || '8' || substr(md5(copy_no::text), 4, 15))::uuid,
        queue, by_correlation # copy_no, subject, envelope, payload from copy
)
insert into job_ended (no, queue, status, error, keyed, kept_since, body)
select copy_no, queue, status, error, keyed, kept_since, body from copy";

/// A store with ended jobs, and the ids of those that may be looked up.
struct Archive {
    bench_node: BenchNode,
    jobs: Vec<JobId>,
}

/// Does nothing on SQLite: only PostgreSQL makes the copies.
pub(crate) fn measure(bench: &mut Bench<'_>) -> Result<(), Error> {
    let locations = (bench.run_folder.fresh(OURS)?, bench.run_folder.fresh(SHALLOW)?);
    let (StoreLocation::BenchSchema(many), StoreLocation::BenchSchema(few)) = locations else {
        return Ok(());
    };
    let ended = bench.settings.ended;
    (bench.progress)(&format!("ending {} jobs …", thousands(ended as f64)));
    let real = FEW.min(ended / 10);
    let few = archive(bench, few, real, 0)?;
    let many = archive(bench, many, real, ended - real)?;
    for round in 0..ROUNDS {
        bench.report_round("look-ups among ended jobs", round);
        for (side, archive) in [(Side::Ours, &many), (Side::RawStore, &few)] {
            let (times, _) = bench.timed(archive.look_up(round))?;
            bench.numbers.push_times(side, ["look_up_p50", "look_up_p99"], &times);
        }
    }
    Ok(())
}

/// A store with `real` real jobs, and `copies` among them.
fn archive(
    bench: &Bench<'_>,
    schema: BenchSchema,
    real: usize,
    copies: usize,
) -> Result<Archive, Error> {
    let bench_node = bench.open(&StoreLocation::BenchSchema(schema.clone()))?;
    let (mut jobs, portion) = (Vec::new(), real / PORTIONS);
    for _ in 0..PORTIONS {
        let work = async {
            jobs.extend(lives(&bench_node, bench_node.submit_batch(0..portion), portion).await?);
            copy(&schema, copies / PORTIONS).await
        };
        bench.timed(work)?;
    }
    Ok(Archive { bench_node, jobs })
}

async fn copy(schema: &BenchSchema, copies: usize) -> Result<(), Error> {
    let client = schema.connect("").await?;
    for first in (0..copies).step_by(COPIES) {
        let count = COPIES.min(copies - first) as i64;
        client.execute(COPY, &[&count]).await.map_err(in_database("copying ended jobs"))?;
    }
    Ok(())
}

impl Archive {
    async fn look_up(&self, round: usize) -> Result<Vec<Duration>, Error> {
        let mut times = Vec::new();
        for index in 0..LOOK_UPS {
            let id = self.jobs[(round * LOOK_UPS + index) * STRIDE % self.jobs.len()];
            let started = self.bench_node.now();
            self.bench_node.node.job(&Scope::All, id).await.map_err(failed("looking a job up"))?;
            times.push(self.bench_node.now() - started);
        }
        Ok(times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Backend, RunFolder, Settings};
    use test_postgres::{Options, Server};

    #[test]
    fn jobs_that_lived_are_found_among_copies() {
        // Not the shared one: the schemas of a run are named after its process.
        let server = Server::start(Options::fast());
        let run_folder = RunFolder::in_database(&server.address()).unwrap();
        let (settings, progress) = (Settings { jobs: 0, deep: 0, ended: 2_000 }, &mut |_: &str| ());
        let mut bench = Bench::new(settings, &run_folder, progress).unwrap();
        measure(&mut bench).unwrap();
        let numbers = std::mem::take(&mut bench.numbers);
        let measures = numbers.measures(&settings, &Backend::Sqlite(""));
        assert_eq!(measures.len(), 2);
        assert!(
            measures.iter().all(|line| line.ours.0.len() == ROUNDS && line.ours.median() > 0.0)
        );

        let StoreLocation::BenchSchema(schema) = bench.run_folder.fresh(OURS).unwrap() else {
            panic!("it is a database")
        };
        let archive = archive(&bench, schema.clone(), 100, 900).unwrap();
        assert_eq!(archive.jobs.len(), 100);
        let count = async {
            let client = schema.connect("").await?;
            let sql = "select count(*) from submission join job_ended using (no)";
            Ok(client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0))
        };
        assert_eq!(bench.timed(count).unwrap().0, 1_000);
    }
}
