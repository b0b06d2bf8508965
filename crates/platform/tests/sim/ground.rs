//! What the world stands on: a store, and how its process dies and comes back.

use std::{path::Path, sync::Arc};
use store::{Clock, Dice, Memory, Options, Replaceable, Reply, Request, Sqlite, Store, StoreError};
use tempfile::TempDir;

/// Which store a world stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum On {
    Memory,
    Sqlite,
}

pub(crate) enum Ground {
    Memory(Arc<Memory>),
    Sqlite(Box<File>),
}

/// A store in a file.
pub(crate) struct File {
    store: Replaceable,
    clock: Arc<dyn Clock>,
    dice: Arc<dyn Dice>,
    // Dropped last: the store is closed before its folder goes.
    folder: TempDir,
}

impl Ground {
    pub(crate) fn new(on: On, clock: Arc<dyn Clock>, dice: Arc<dyn Dice>) -> Self {
        match on {
            On::Memory => Ground::Memory(Arc::new(Memory::new(clock, dice))),
            On::Sqlite => {
                let folder = folder();
                let store = Replaceable::new(open(&folder, &clock, &dice));
                Ground::Sqlite(Box::new(File { store, clock, dice, folder }))
            }
        }
    }

    pub(crate) fn store(&self) -> Arc<dyn Store> {
        match self {
            Ground::Memory(memory) => memory.clone(),
            Ground::Sqlite(file) => file.store.inside(),
        }
    }

    pub(crate) fn restart(&self) {
        match self {
            Ground::Memory(memory) => memory.restart(),
            Ground::Sqlite(file) => {
                file.store.replace(|| open(&file.folder, &file.clock, &file.dice));
            }
        }
    }

    /// How an answer looks that was given before a commit which then failed. The file plants this
    /// mistake by itself, in a test of its own.
    pub(crate) async fn execute_and_forget(
        &self,
        batch: Vec<Request>,
    ) -> Result<Vec<Reply>, StoreError> {
        let Ground::Memory(memory) = self else { unreachable!("planted in memory only") };
        let before = memory.backup();
        let replies = memory.execute(batch).await;
        memory.rewind(before);
        replies
    }
}

fn open(folder: &TempDir, clock: &Arc<dyn Clock>, dice: &Arc<dyn Dice>) -> Arc<dyn Store> {
    let options = Options { fail_stop: Arc::new(|_| {}), ..Options::default() };
    let path = folder.path().join("consign.db");
    let store = Sqlite::open(path, clock.clone(), dice.clone(), options);
    Arc::new(store.expect("it can be opened"))
}

/// In memory where there is such a place: a million syncs would prove nothing here. What a disk may
/// lose is tested with disks that lose it.
fn folder() -> TempDir {
    let in_memory = Path::new("/dev/shm");
    let made = if in_memory.is_dir() { TempDir::new_in(in_memory) } else { TempDir::new() };
    made.expect("there is room for a folder")
}
