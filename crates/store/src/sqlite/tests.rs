//! The conformance suite on files, and what only files can do.

use super::{Options, Sqlite};
use crate::{
    HandClock, Replaceable, SeededDice, Store,
    conformance::{House, conformance},
};
use engine::Timestamp;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};
use tempfile::TempDir;

/// A folder in memory where there is one: what is tested here is not the disk.
pub(super) fn folder() -> TempDir {
    let in_memory = Path::new("/dev/shm");
    let made = if in_memory.is_dir() { TempDir::new_in(in_memory) } else { TempDir::new() };
    made.expect("there is room for a folder")
}

/// A failure must not end the test's own process.
pub(super) fn options() -> Options {
    Options { fail_stop: Arc::new(|_| {}), ..Options::default() }
}

pub(super) fn hands() -> (Arc<HandClock>, Arc<SeededDice>) {
    let clock = Arc::new(HandClock::at(Timestamp::from_unix_ms(1_800_000_000_000)));
    (clock, Arc::new(SeededDice::new(1)))
}

fn open() -> House {
    let folder = Arc::new(folder());
    let (clock, dice) = hands();
    let open = {
        let (clock, dice, folder) = (clock.clone(), dice.clone(), folder.clone());
        move |path: PathBuf| -> Arc<dyn Store> {
            let _kept = &folder;
            let store = Sqlite::open(path, clock.clone(), dice.clone(), options());
            Arc::new(store.expect("it can be opened"))
        }
    };
    let path = folder.path().join("consign.db");
    let store = Arc::new(Replaceable::new(open(path.clone())));
    let restart = Box::new({
        let (store, open, path) = (store.clone(), open.clone(), path.clone());
        move || store.replace(|| open(path.clone()))
    });
    let restored = Box::new(move || {
        let (copy, other) = (folder.path().join("backup.db"), folder.path().join("other.db"));
        super::backup(&path, &copy).expect("it can be copied");
        super::restore(&copy, &other).expect("it can be restored");
        open(other)
    });
    House { store, clock, dice, restart, restored }
}

conformance!(super::open);
