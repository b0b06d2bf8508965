//! The benchmark of Consign: its throughput and latency beside the limit of the same disk.
//!
//! Each number stands beside the raw limit ([`raw`]), measured in the same run, round by round in
//! turns, because a machine is rarely quiet. [`run`] measures, [`BenchReport::table`] shows the
//! result to people and [`BenchReport::json`] to programs. [`run_http`] does the same for the HTTP
//! API, beside a bare echo.
#![forbid(unsafe_code)]

mod bench_node;
mod database;
mod deep;
mod error;
mod figures;
mod files;
mod http;
mod idle;
mod json;
mod load;
mod look_up;
mod machine;
mod measure;
mod raw;
mod report;
mod run_folder;
mod soak;
mod table;
mod throughput;
mod worker_group;

pub use error::Error;
pub use figures::Times;
pub use http::{
    attack::{ATTACK_MEMORY_MIB_MAX, ATTACK_RATIO_MAX, AttackSoak, attack_soak},
    echo::serve_echo,
    run_http,
};
pub use report::BenchReport;
pub use run_folder::RunFolder;
pub use soak::{SOAK_JOBS_PER_SECOND, SOAK_RATIO_MAX, Soak, soak};

use bench_node::BenchNode;
use error::failed;
use figures::rate;
use machine::{Backend, Machine};
use measure::{Numbers, Side};
use platform::SystemClock;
use raw::RawStore;
use report::Beside;
use run_folder::{OURS, RAW, StoreLocation};
use std::{sync::Arc, time::Duration};
use tokio::{
    runtime::{Builder, Runtime},
    time::Instant,
};

/// How much is measured.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// Jobs in each round of a throughput measurement; at least [`JOBS_MIN`].
    pub jobs: usize,
    /// Jobs that wait while a deep queue is drained; at least [`DEEP_MIN`].
    pub deep: usize,
    /// Ended jobs among which others are looked up, where that is measured; at least [`ENDED_MIN`].
    pub ended: usize,
}

/// With fewer jobs the numbers mean nothing.
pub const JOBS_MIN: usize = 100;
/// The same for a deep queue, which must not run empty while it is measured.
pub const DEEP_MIN: usize = 1_000;
/// The same for ended jobs.
pub const ENDED_MIN: usize = 1_000;
/// How often each part is measured; the median counts.
const ROUNDS: usize = 5;
/// Threads for the tasks that submit and run jobs, or send HTTP requests.
const RUNTIME_THREADS: usize = 2;

/// Measures everything and reports progress to `progress`. Blocking, for some minutes.
pub fn run(
    settings: Settings,
    run_folder: &RunFolder,
    progress: &mut dyn FnMut(&str),
) -> Result<BenchReport, Error> {
    let mut bench = Bench::new(settings, run_folder, progress)?;
    let machine = Machine::of(run_folder, &bench.clock)?;
    // First, while this process has used no memory for anything else.
    deep::measure(&mut bench)?;
    idle::measure(&mut bench)?;
    throughput::measure(&mut bench)?;
    look_up::measure(&mut bench)?;
    Ok(bench.report(machine, Beside::Disk))
}

struct Bench<'a> {
    settings: Settings,
    run_folder: &'a RunFolder,
    clock: Arc<SystemClock>,
    runtime: Runtime,
    numbers: Numbers,
    progress: &'a mut dyn FnMut(&str),
}

impl<'a> Bench<'a> {
    fn new(
        settings: Settings,
        run_folder: &'a RunFolder,
        progress: &'a mut dyn FnMut(&str),
    ) -> Result<Self, Error> {
        let threads = RUNTIME_THREADS;
        let runtime = Builder::new_multi_thread().worker_threads(threads).enable_all().build();
        let runtime = runtime.map_err(failed("starting the threads for tasks"))?;
        let clock = Arc::new(SystemClock::new());
        Ok(Bench { settings, run_folder, clock, runtime, numbers: Numbers::default(), progress })
    }

    fn open_own(&self) -> Result<(BenchNode, StoreLocation), Error> {
        let location = self.run_folder.fresh(OURS)?;
        Ok((self.open(&location)?, location))
    }

    fn open(&self, location: &StoreLocation) -> Result<BenchNode, Error> {
        self.runtime.block_on(BenchNode::open(location, &self.clock))
    }

    fn open_raw(&self) -> Result<(RawStore, StoreLocation), Error> {
        let location = self.run_folder.fresh(RAW)?;
        Ok((self.runtime.block_on(RawStore::open(&location))?, location))
    }

    /// Records the size on disk of a closed store, for each job in it.
    fn record_size(
        &mut self,
        side: Side,
        key: &'static str,
        location: &StoreLocation,
    ) -> Result<(), Error> {
        let bytes = self.runtime.block_on(location.bytes())?;
        self.numbers.push(side, key, bytes as f64 / self.settings.jobs as f64);
        Ok(())
    }

    /// Times work that moves all jobs of a round, and records the rate under each key.
    fn time_jobs<T>(
        &mut self,
        side: Side,
        keys: &[&'static str],
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let (done, took) = self.timed(work)?;
        let speed = rate(self.settings.jobs, took);
        keys.iter().for_each(|key| self.numbers.push(side, key, speed));
        Ok(done)
    }

    fn timed<T>(
        &self,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<(T, Duration), Error> {
        let started = Instant::now();
        let done = self.runtime.block_on(work)?;
        Ok((done, started.elapsed()))
    }

    fn report_round(&mut self, what: &str, round: usize) {
        (self.progress)(&format!("measuring {what} … round {} of {ROUNDS}", round + 1));
    }

    fn report(self, mut machine: Machine, beside: Beside) -> BenchReport {
        machine.record_others();
        let measures = self.numbers.measures(&self.settings, &machine.backend);
        BenchReport { machine, settings: self.settings, beside, measures }
    }
}
