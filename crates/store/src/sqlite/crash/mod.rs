//! The store on a disk that crashes, fails, becomes full and rots.
//!
//! A [story](story) runs calls on such a disk and records their answers. A [checker](check) that
//! knows only those answers opens the disk after the crash, and compares.

mod check;
mod controls;
mod facts;
mod faults;
mod full;
mod listing;
mod points;
mod rot;
mod snapshot;
mod story;

use super::{OpenError, Options, Sqlite, log::commits_out_of_reach};
use crate::store::with_causes;
use crate::{ManualClock, SeededRandom};
use crash_disk::Disk;
use engine::Timestamp;
use std::{
    io::Write,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

const DB: &str = "consign.db";
const WAL: &str = "consign.db-wal";

/// How often a store called fail-stop.
#[derive(Clone, Default)]
struct Stops(Arc<AtomicUsize>);

impl Stops {
    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    /// A checkpoint after every few commits: most failures happen around them.
    fn options(&self) -> Options {
        let stops = self.0.clone();
        let fail_stop = Arc::new(move |_: &str| {
            stops.fetch_add(1, Ordering::SeqCst);
        });
        let vfs = Some(crash_disk::VFS_NAME.into());
        Options { vfs, fail_stop, log_pages: LOG_PAGES, ..Options::default() }
    }
}

const LOG_PAGES: i64 = 48;

/// When every story begins.
fn start() -> Timestamp {
    Timestamp::from_unix_ms(1_800_000_000_000)
}

/// Opens the store on `disk` with a clock at the story's start. Then the store continues at the
/// last time it used, and opening it extends no lease.
fn open(disk: &Disk) -> Result<Sqlite, OpenError> {
    open_counting(disk, &Stops::default())
}

fn open_counting(disk: &Disk, stops: &Stops) -> Result<Sqlite, OpenError> {
    let (clock, random) = (Arc::new(ManualClock::at(start())), Arc::new(SeededRandom::new(7)));
    // Opening a real file checks the log first. Here only SQLite can find the log, so the test does
    // it.
    let log = disk.contents(WAL).unwrap_or_default();
    if let Some(commits) = commits_out_of_reach(&log[..]).expect("memory can be read") {
        return Err(OpenError::LogDamaged { path: disk.path(WAL).into(), commits });
    }
    Sqlite::open(disk.path(DB), clock, random, stops.options())
}

fn say(line: &str) {
    writeln!(std::io::stderr(), "{line}").expect("it prints");
}
