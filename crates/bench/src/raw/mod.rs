//! The raw limit: what the same database does on the same disk, in hand-written SQL without our
//! code.
//!
//! It is as durable as Consign and stores what the contract says of a job's status and history, and
//! nothing else: no rules, no batches shared among callers, no fences, counters, announcements,
//! listings or sealed rows. It is as fast as possible: statements are prepared once, and ids and
//! payloads are made before the clock starts. A commit inserts jobs, or claims them, or completes
//! them.

pub(crate) mod postgres;
pub(crate) mod sqlite;

use crate::{
    Error,
    bench_node::{PAYLOAD_BYTES, payload},
    error::check_count,
    run_folder::StoreLocation,
};
use std::time::Duration;

pub(crate) const RAW_BATCH: usize = 1_000;

/// Any time will do that has as many digits as a real one.
const NOW_MS: i64 = 1_800_000_000_000;
const WORKER: &str = "worker-1";

pub(crate) enum RawStore {
    Sqlite(sqlite::RawSqlite),
    Postgres(Box<postgres::RawPostgres>),
}

impl RawStore {
    pub(crate) async fn open(location: &StoreLocation) -> Result<Self, Error> {
        Ok(match location {
            StoreLocation::File(path) => RawStore::Sqlite(sqlite::RawSqlite::open(path)?),
            StoreLocation::BenchSchema(schema) => {
                RawStore::Postgres(Box::new(postgres::RawPostgres::open(schema).await?))
            }
        })
    }

    pub(crate) async fn submit(&mut self, jobs: &[RawJob], per_commit: usize) -> Result<(), Error> {
        self.run(jobs, per_commit, 0).await
    }

    pub(crate) async fn drain(&mut self, jobs: usize) -> Result<(), Error> {
        self.run(&[], RAW_BATCH, jobs).await
    }

    pub(crate) async fn lives(&mut self, jobs: &[RawJob]) -> Result<(), Error> {
        self.run(jobs, RAW_BATCH, jobs.len()).await
    }

    /// Inserts `new` and completes `ending` jobs, in turns where it does both.
    async fn run(&mut self, new: &[RawJob], per_commit: usize, ending: usize) -> Result<(), Error> {
        let completed = match self {
            RawStore::Sqlite(raw) => raw.run(new, per_commit, ending)?,
            RawStore::Postgres(raw) => raw.run(new, per_commit, ending).await?,
        };
        check_count("raw jobs", ending, completed)
    }
}

/// A job that is still to be submitted.
pub(crate) struct RawJob {
    no: i64,
    id: [u8; 16],
    correlation: String,
    payload: String,
}

/// Jobs to submit, with ids like ours: in the order of time, and random within a millisecond.
pub(crate) fn raw_jobs(jobs: usize) -> Vec<RawJob> {
    let made = (1..=jobs).map(|number| {
        let no = i64::try_from(number).expect("far fewer jobs");
        let payload = payload(number, Duration::ZERO);
        debug_assert_eq!(payload.len(), PAYLOAD_BYTES);
        // As long as a UUID, and as random.
        let correlation = format!("{:036x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        RawJob { no, id: id(number as u128), correlation, payload }
    });
    made.collect()
}

fn id(number: u128) -> [u8; 16] {
    const JOBS_PER_MS: u128 = 50;
    const SCATTER: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
    let random = number.wrapping_mul(SCATTER) >> 48;
    ((number / JOBS_PER_MS) << 80 | random).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_ids_are_the_same() {
        let ids: std::collections::BTreeSet<_> = (1..=100_000).map(id).collect();
        assert_eq!(ids.len(), 100_000);
    }
}
