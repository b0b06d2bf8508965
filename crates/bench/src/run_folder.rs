//! Everything that a run creates: files or schemas, and child processes.

use crate::{
    Error,
    database::{BenchSchema, Database},
    files::{Files, failed},
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Child,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Where a run keeps what it creates. When it is dropped, it removes all of it.
pub struct RunFolder {
    pub(crate) storage: Storage,
    children: Mutex<Vec<Child>>,
}

pub(crate) enum Storage {
    Files(Files),
    Database(Database),
}

/// The stores of a run, by their suffix: ours, raw, and the short queue.
pub(crate) const OURS: &str = "";
pub(crate) const RAW: &str = "-raw";
pub(crate) const SHALLOW: &str = "-shallow";
pub(crate) const STORES: [&str; 3] = [OURS, RAW, SHALLOW];

impl RunFolder {
    fn new(storage: Storage) -> Self {
        RunFolder { storage, children: Mutex::default() }
    }

    /// A new folder in `parent`.
    pub fn folder_in(parent: &Path) -> Result<Self, Error> {
        Files::folder_in(parent).map(Storage::Files).map(RunFolder::new)
    }

    /// A new store at `path`, and others beside it. All names must be free.
    pub fn at(path: &Path) -> Result<Self, Error> {
        Files::at(path).map(Storage::Files).map(RunFolder::new)
    }

    /// New schemas in a database, which stays as it is otherwise.
    pub fn in_database(address: &str) -> Result<Self, Error> {
        Database::at(address).map(Storage::Database).map(RunFolder::new)
    }

    /// Removes everything, also while it is in use: for a process that is about to end.
    pub fn clear(&self) {
        self.end_children(|_| true);
        match &self.storage {
            Storage::Files(files) => files.clear(),
            Storage::Database(database) => database.clear(),
        }
    }

    /// Takes a child process over: it ends when the run does, however that ends.
    pub(crate) fn add_child(&self, child: Child) {
        self.children().push(child);
    }

    /// Ends the child processes for which `selects` is true, and waits for each.
    pub(crate) fn end_children(&self, selects: impl Fn(&Child) -> bool) {
        for mut child in self.children().extract_if(.., |child| selects(child)) {
            // Both can only fail for a process that is gone.
            drop(child.kill());
            drop(child.wait());
        }
    }

    fn children(&self) -> MutexGuard<'_, Vec<Child>> {
        self.children.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the files or schemas are, for people.
    pub fn shown(&self) -> String {
        match &self.storage {
            Storage::Files(files) => files.shown().display().to_string(),
            Storage::Database(database) => database.shown(),
        }
    }

    /// The path or schema of one of [`STORES`], emptied.
    pub(crate) fn fresh(&self, store: &str) -> Result<StoreLocation, Error> {
        match &self.storage {
            Storage::Files(files) => files.fresh(store).map(StoreLocation::File),
            Storage::Database(database) => database.fresh(store).map(StoreLocation::BenchSchema),
        }
    }

    /// A new folder for a server, without a file of an earlier part.
    pub(crate) fn server_folder(&self) -> Result<PathBuf, Error> {
        match &self.storage {
            Storage::Files(files) => files.server_folder(),
            Storage::Database(_) => Err(Error::Unmeasurable(
                "the HTTP API is measured over SQLite: leave --store away or name a file with sqlite:<path>"
                    .into(),
            )),
        }
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Where one store of a run is: ours, or raw.
#[derive(Clone)]
pub(crate) enum StoreLocation {
    File(PathBuf),
    BenchSchema(BenchSchema),
}

impl StoreLocation {
    /// Moves the log into the tables. A closed SQLite file has done so by itself.
    pub(crate) async fn settle(&self) -> Result<(), Error> {
        match self {
            StoreLocation::File(_) => Ok(()),
            StoreLocation::BenchSchema(schema) => schema.settle().await,
        }
    }

    pub(crate) async fn bytes(&self) -> Result<u64, Error> {
        match self {
            StoreLocation::File(path) => match fs::metadata(path) {
                Ok(file) => Ok(file.len()),
                Err(error) => Err(failed("weighing", path, error)),
            },
            StoreLocation::BenchSchema(schema) => schema.bytes().await,
        }
    }
}
