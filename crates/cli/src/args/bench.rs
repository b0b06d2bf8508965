//! Arguments of `consign bench`.

use super::store::StoreAddress;
use clap::{Args as Arguments, builder::RangedU64ValueParser, value_parser};
use std::{path::PathBuf, str::FromStr};

#[derive(Arguments)]
pub(crate) struct BenchArgs {
    // Not the usual store option: CONSIGN_STORE names a store in use.
    /// A new file, sqlite:<path>, or a database, postgres://…, in which the run makes schemas of
    /// its own; both are removed afterwards. Without it, a file in the system's temporary folder
    #[arg(long)]
    pub(crate) store: Option<BenchStore>,
    /// Jobs in each round of what is about throughput; 100 at least
    #[arg(long, default_value_t = 100_000, value_parser = at_least(::bench::JOBS_MIN))]
    pub(crate) jobs: u64,
    /// Jobs that wait while a deep queue is drained; 1000 at least
    #[arg(long, default_value_t = 1_000_000, value_parser = at_least(::bench::DEEP_MIN))]
    pub(crate) deep: u64,
    /// Ended jobs among which others are looked up, in PostgreSQL only; 1000 at least
    #[arg(long, default_value_t = 1_000_000, value_parser = at_least(::bench::ENDED_MIN))]
    pub(crate) ended: u64,
    /// Measure the HTTP API instead, beside a bare echo of the same requests
    #[arg(long)]
    pub(crate) http: bool,
    /// Print one JSON object instead of a table
    #[arg(long)]
    pub(crate) json: bool,
    /// Be the echo that a run with --http stands beside
    #[arg(long, hide = true)]
    pub(crate) echo: bool,
}

/// What a run may measure with.
#[derive(Clone)]
pub(crate) enum BenchStore {
    File(PathBuf),
    Database(String),
}

impl FromStr for BenchStore {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if ["postgres://", "postgresql://"].iter().any(|scheme| text.starts_with(scheme)) {
            return Ok(BenchStore::Database(text.to_owned()));
        }
        match text.parse::<StoreAddress>()? {
            StoreAddress::Sqlite(path) => Ok(BenchStore::File(path)),
            StoreAddress::Postgres(_) => Ok(BenchStore::Database(text.to_owned())),
        }
    }
}

fn at_least(jobs: usize) -> RangedU64ValueParser {
    value_parser!(u64).range(jobs as u64..=JOBS_MAX)
}

/// A run with more would fill any disk.
const JOBS_MAX: u64 = 1_000_000_000;
