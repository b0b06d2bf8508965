//! THE MEASURE of Consign: what we do beside what the disk could do.
//!
//! Each number of ours stands beside the raw limit ([`raw`]), measured in the same run, round by round
//! in turns, because a machine is rarely quiet. [`run`] measures, [`Report::table`] shows it to people and
//! [`Report::json`] to programs. [`run_http`] does the same for the HTTP door, beside a bare echo.
#![forbid(unsafe_code)]

mod crew;
mod database;
mod deep;
mod error;
mod figures;
mod files;
mod house;
mod http;
mod idle;
mod json;
mod load;
mod look_up;
mod machine;
mod measure;
mod neighbours;
mod place;
mod raw;
mod report;
mod site;
mod soak;
mod table;
mod throughput;

pub use database::{PROMISES, Server};
pub use error::Error;
pub use figures::Rounds;
pub use house::PAYLOAD_BYTES;
pub use http::{
    attack::{ATTACK_MEMORY_MIB_MAX, ATTACK_RATIO_MAX, AttackSoak, HonestRequests, attack_soak},
    echo::serve_echo,
    run_http,
};
pub use machine::{Backend, Machine};
pub use measure::{Goal, Group, Measure, Unit};
pub use place::Place;
pub use raw::{RAW_BATCH, sqlite::RAW_PRAGMAS};
pub use report::{Beside, Report};
pub use soak::{Claims, SOAK_JOBS_PER_SECOND, SOAK_RATIO_MAX, Soak, soak};

use measure::goal_on_postgres;
use neighbours::Ticks;
use platform::SystemClock;
use site::Site;
use std::{sync::Arc, time::Duration};
use store::Clock;
use tokio::runtime::{Builder, Runtime};

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Jobs in each round of what is about throughput; at least [`JOBS_MIN`].
    pub jobs: usize,
    /// Jobs that wait while a deep queue is drained; at least [`DEEP_MIN`].
    pub deep: usize,
    /// Ended jobs among which others are looked up, where that is measured; at least [`ENDED_MIN`].
    pub ended: usize,
}

/// With fewer jobs than these there is nothing to see.
pub const JOBS_MIN: usize = 100;
/// The same of a deep queue, which must not run empty while it is measured.
pub const DEEP_MIN: usize = 1_000;
/// The same of ended jobs.
pub const ENDED_MIN: usize = 1_000;
/// Each part is measured so many times, and the middle counts.
pub const ROUNDS: usize = 5;
/// Threads for the tasks that hand jobs over and run them, or ask over HTTP.
const RUNTIME_THREADS: usize = 2;

/// Measures everything, saying what it is at. This blocks for some minutes.
pub fn run(settings: Settings, place: &Place, say: &mut dyn FnMut(&str)) -> Result<Report, Error> {
    let mut bench = Bench::new(settings, place, say)?;
    let (mut machine, before) = (Machine::of(place, &bench.clock)?, Ticks::now());
    // First, while this process has used no memory for anything else.
    let mut measures = deep::measure(&mut bench)?;
    measures.extend(idle::measure(&mut bench)?);
    measures.extend(throughput::measure(&mut bench)?);
    measures.extend(look_up::measure(&mut bench)?);
    machine.note_others(before);
    if let Backend::Postgres(_) = machine.backend {
        measures.iter_mut().for_each(|measure| measure.goal = goal_on_postgres(measure.key));
    }
    Ok(Report::new(machine, settings, Beside::Disk, measures))
}

/// A run under way.
struct Bench<'a> {
    settings: Settings,
    place: &'a Place,
    clock: Arc<SystemClock>,
    runtime: Runtime,
    say: &'a mut dyn FnMut(&str),
}

impl<'a> Bench<'a> {
    fn new(
        settings: Settings,
        place: &'a Place,
        say: &'a mut dyn FnMut(&str),
    ) -> Result<Self, Error> {
        let threads = RUNTIME_THREADS;
        let runtime = Builder::new_multi_thread().worker_threads(threads).enable_all().build();
        let runtime =
            runtime.map_err(|e| Error::Tasks("starting the threads for tasks", e.into()))?;
        Ok(Bench { settings, place, clock: Arc::new(SystemClock::new()), runtime, say })
    }
}

impl Bench<'_> {
    /// Our store, new.
    fn ours(&self) -> Result<(house::House, Site), Error> {
        let site = self.place.ours()?;
        Ok((self.open(&site)?, site))
    }

    /// A store of ours, as it is.
    fn open(&self, site: &Site) -> Result<house::House, Error> {
        self.runtime.block_on(house::House::open(site, &self.clock))
    }

    /// The twin, new.
    fn raw(&self) -> Result<(raw::Raw, Site), Error> {
        let site = self.place.raw()?;
        Ok((self.runtime.block_on(raw::Raw::open(&site))?, site))
    }

    /// What a closed store has on the disk, for each job in it.
    fn bytes_per_job(&self, site: &Site) -> Result<f64, Error> {
        let bytes = self.runtime.block_on(site.bytes())?;
        Ok(bytes as f64 / self.settings.jobs as f64)
    }

    /// Does something, and says how long that took.
    fn timed<T>(
        &self,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<(T, Duration), Error> {
        let began = self.now();
        let done = self.runtime.block_on(work)?;
        Ok((done, self.now() - began))
    }

    fn now(&self) -> Duration {
        self.clock.read().monotonic
    }

    fn say_round(&mut self, what: &str, round: usize) {
        (self.say)(&format!("measuring {what} … round {} of {ROUNDS}", round + 1));
    }
}
