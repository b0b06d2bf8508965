//! The raw limit of PostgreSQL: a few connections side by side, each with one statement to a
//! commit.
//!
//! Arrays go in binary, and the server unnests them: a batch is one message in each direction. A
//! statement that writes all its rows by itself needs no transaction around it, which saves two
//! round trips.

use super::{NOW_MS, RAW_BATCH, RawJob, WORKER};
use crate::{
    Error,
    database::BenchSchema,
    error::{check_count, raw},
};
use std::{cell::RefCell, slice::Chunks};
use tokio_postgres::{Client, Statement, types::ToSql};
use uuid::Uuid;

/// Connections side by side: with more, two cores did no more.
pub(crate) const RAW_CONNECTIONS: usize = 4;
/// The settings that make it fast, beside one plan for each statement; shown with the numbers.
/// Without them, a plan made for a still empty table would scan all of it, because statistics lag
/// behind its growth.
pub(crate) const SETTINGS: &str =
    "enable_seqscan=off, enable_bitmapscan=off, plan_cache_mode=force_generic_plan";

/// A column of its own marks a job as ready. Completing a job then changes no indexed column, and
/// its row stays in its page if that has space. With fillfactor 70 a third of the rows find some,
/// which was worth a tenth of whole lives. Less than 70 brought nothing more. Commits of 500, 1,000
/// and 2,000 did not differ by more than the noise.
const TABLES: &str = "
create table job (
    no bigint primary key,
    id uuid not null unique,
    tenant text not null,
    job_type text not null,
    correlation text not null,
    ready boolean not null,
    state smallint not null,
    priority smallint not null,
    run_at bigint not null,
    attempt smallint not null,
    max_attempts smallint not null,
    created_at bigint not null,
    started_at bigint,
    completed_at bigint,
    worker text,
    lease_until bigint,
    token bytea
) with (fillfactor = 70);
create index job_ready on job (job_type, priority, run_at, no) where ready;
create table payload (no bigint primary key, body bytea not null);
create table history (
    no bigint not null,
    seq smallint not null,
    at bigint not null,
    was smallint,
    became smallint not null,
    attempt smallint not null,
    worker text,
    primary key (no, seq)
);
";

const INSERT: &str = "
with body as (
    insert into payload (no, body) select * from unnest($1::bigint[], $4::bytea[])
), past as (
    insert into history (no, seq, at, was, became, attempt, worker)
    select no, 1, $5, null, 0, 0, null from unnest($1::bigint[]) as new (no)
)
insert into job (no, id, tenant, job_type, correlation, ready, state, priority, run_at, attempt,
    max_attempts, created_at)
select no, id, 'default', 'bench', correlation, true, 0, 4, $5, 0, 3, $5
  from unnest($1::bigint[], $2::uuid[], $3::text[]) as new (no, id, correlation)";

const CLAIM: &str = "
with claimed as (
    update job set ready = false, state = 1, attempt = attempt + 1, started_at = $1::bigint,
        worker = $2::text, lease_until = $1, token = $3::bytea
     where no = any(array(
        select no from job
         where ready and job_type = 'bench' and priority = 4 and run_at <= $1
         order by run_at, no limit $4::bigint for update skip locked))
    returning no, attempt
), past as (
    insert into history (no, seq, at, was, became, attempt, worker)
    select no, 2, $1, 0, 1, attempt, $2 from claimed
)
select no from claimed";

const COMPLETE: &str = "
with completed as (
    update job set state = 2, completed_at = $2::bigint, lease_until = null, token = null
     where no = any($1::bigint[]) and token = $3::bytea
    returning no, attempt
)
insert into history (no, seq, at, was, became, attempt, worker)
select no, 3, $2, 1, 2, attempt, $4::text from completed";

pub(crate) struct RawPostgres {
    connections: [RawConnection; RAW_CONNECTIONS],
}

struct RawConnection {
    client: Client,
    insert: Statement,
    claim: Statement,
    complete: Statement,
    /// Stands for the tokens of its claims.
    token: [u8; 16],
}

/// The batches still to be submitted. All connections run in one task, so a `RefCell` is enough.
type Batches<'a> = RefCell<Chunks<'a, RawJob>>;

impl RawPostgres {
    pub(crate) async fn open(schema: &BenchSchema) -> Result<Self, Error> {
        if schema.is_new().await? {
            schema.make(TABLES).await?;
        }
        let connection = |number| RawConnection::open(schema, number);
        let (a, b, c, d) =
            tokio::try_join!(connection(0), connection(1), connection(2), connection(3))?;
        Ok(RawPostgres { connections: [a, b, c, d] })
    }

    /// Inserts `new`, `per_commit` jobs in a commit; completes `ending` jobs, and returns how many.
    pub(super) async fn run(
        &self,
        new: &[RawJob],
        per_commit: usize,
        ending: usize,
    ) -> Result<usize, Error> {
        let batches = &RefCell::new(new.chunks(per_commit));
        let [a, b, c, d] =
            self.connections.each_ref().map(|connection| connection.run(batches, ending > 0));
        let (a, b, c, d) = tokio::try_join!(a, b, c, d)?;
        Ok(a + b + c + d)
    }
}

impl RawConnection {
    async fn open(schema: &BenchSchema, number: u128) -> Result<Self, Error> {
        let client = schema.connect(SETTINGS).await?;
        let prepare = async |sql| client.prepare(sql).await.map_err(raw("preparing a statement"));
        let (insert, claim) = (prepare(INSERT).await?, prepare(CLAIM).await?);
        let complete = prepare(COMPLETE).await?;
        Ok(RawConnection { client, insert, claim, complete, token: number.to_be_bytes() })
    }

    /// Inserts its share of the batches. A connection that also completes jobs runs until it finds
    /// none. Connections run each other's jobs, and a job that another connection has locked
    /// belongs to that connection. The connection that inserts the last batch leaves none behind.
    async fn run(&self, batches: &Batches<'_>, completes: bool) -> Result<usize, Error> {
        let mut completed = 0;
        loop {
            let batch = batches.borrow_mut().next();
            if let Some(batch) = batch {
                self.insert(batch).await?;
            }
            let more = if completes { self.run_batch().await? } else { 0 };
            if batch.is_none() && more == 0 {
                return Ok(completed);
            }
            completed += more;
        }
    }

    /// Claims a batch and completes it: a claim is on disk before its job is run.
    async fn run_batch(&self) -> Result<usize, Error> {
        let claimed = self.claim().await?;
        if claimed.is_empty() {
            return Ok(0);
        }
        let completed = self.complete(&claimed).await?;
        check_count("raw completions", claimed.len(), completed)?;
        Ok(completed)
    }

    async fn insert(&self, jobs: &[RawJob]) -> Result<(), Error> {
        let numbers: Vec<i64> = jobs.iter().map(|job| job.no).collect();
        let ids: Vec<Uuid> = jobs.iter().map(|job| Uuid::from_bytes(job.id)).collect();
        let correlations: Vec<&str> = jobs.iter().map(|job| job.correlation.as_str()).collect();
        let payloads: Vec<&[u8]> = jobs.iter().map(|job| job.payload.as_bytes()).collect();
        let values: [&(dyn ToSql + Sync); 5] = [&numbers, &ids, &correlations, &payloads, &NOW_MS];
        let inserted = self.client.execute(&self.insert, &values).await;
        inserted.map(drop).map_err(raw("inserting"))
    }

    async fn claim(&self) -> Result<Vec<i64>, Error> {
        let limit = i64::try_from(RAW_BATCH).expect("a thousand");
        let values: [&(dyn ToSql + Sync); 4] = [&NOW_MS, &WORKER, &&self.token[..], &limit];
        let rows = self.client.query(&self.claim, &values).await.map_err(raw("claiming"))?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    async fn complete(&self, jobs: &[i64]) -> Result<usize, Error> {
        let values: [&(dyn ToSql + Sync); 4] = [&jobs, &NOW_MS, &&self.token[..], &WORKER];
        let completed = self.client.execute(&self.complete, &values).await;
        Ok(completed.map_err(raw("completing"))? as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::raw_jobs, *};
    use crate::{
        RunFolder,
        run_folder::{RAW, StoreLocation},
    };
    use test_postgres::Server;
    use tokio::runtime::{Builder, Runtime};

    /// A run in the shared server, and the schema of its raw side.
    fn start_run() -> (RunFolder, BenchSchema, Runtime) {
        let run_folder = RunFolder::in_database(&Server::shared().address()).unwrap();
        let StoreLocation::BenchSchema(schema) = run_folder.fresh(RAW).unwrap() else {
            panic!("a database has schemas")
        };
        (run_folder, schema, Builder::new_current_thread().enable_all().build().unwrap())
    }

    async fn count(raw: &RawPostgres, condition: &str) -> i64 {
        let sql = format!("select count(*) from {condition}");
        raw.connections[0].client.query_one(&sql, &[]).await.unwrap().get(0)
    }

    // One after the other, because the schemas of a run are named after its process.
    #[test]
    fn raw_postgres_completes_jobs_and_removes_its_schema() {
        whole_lives();
        submit_then_drain();
        interrupted_run();
    }

    fn whole_lives() {
        let (_run_folder, schema, runtime) = start_run();
        runtime.block_on(async {
            let raw = RawPostgres::open(&schema).await.unwrap();
            let lived = raw.run(&raw_jobs(5_500), RAW_BATCH, 5_500).await.unwrap();
            assert_eq!(lived, 5_500);
            assert_eq!(count(&raw, "job where state = 2 and attempt = 1").await, 5_500);
            assert_eq!(count(&raw, "payload").await, 5_500);
            assert_eq!(count(&raw, "history").await, 16_500);
            assert!(schema.bytes().await.unwrap() > 1_000_000);
        });
        assert!(matches!(
            RunFolder::in_database(&Server::shared().address()),
            Err(Error::SchemaExists(_))
        ));
    }

    fn submit_then_drain() {
        let (run_folder, schema, runtime) = start_run();
        runtime.block_on(async {
            let raw = RawPostgres::open(&schema).await.unwrap();
            raw.run(&raw_jobs(1_100), 64, 0).await.unwrap();
            assert_eq!(count(&raw, "job where ready").await, 1_100);
            let raw = RawPostgres::open(&schema).await.unwrap();
            assert_eq!(raw.run(&[], RAW_BATCH, 1_100).await.unwrap(), 1_100);
            assert_eq!(count(&raw, "job where state = 2").await, 1_100);
        });
        drop(run_folder);
        assert!(runtime.block_on(schema.is_new()).unwrap());
    }

    /// Schemas in use are removed as well.
    fn interrupted_run() {
        let (run_folder, schema, runtime) = start_run();
        let raw = runtime.block_on(RawPostgres::open(&schema)).unwrap();
        let used = std::thread::spawn(move || {
            runtime.block_on(raw.run(&raw_jobs(200_000), RAW_BATCH, 200_000))
        });
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let seen = schema.connect("").await.unwrap();
            let sql = "select exists (select from job where state = 2)";
            while !seen.query_one(sql, &[]).await.unwrap().get::<_, bool>(0) {
                assert!(!used.is_finished(), "it ended before the test could interrupt it");
            }
        });
        run_folder.clear();
        assert!(runtime.block_on(schema.is_new()).unwrap());
        assert!(matches!(used.join().unwrap(), Err(Error::Failed(..))));
    }
}
