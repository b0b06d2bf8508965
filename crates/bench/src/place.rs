//! What a run makes: new when it begins, gone when it ends.

use crate::{
    Error,
    database::{Database, Schema},
    files::{Files, failed},
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Child,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Where a run keeps what it makes. Dropped, it removes all of it.
pub struct Place {
    pub(crate) ground: Ground,
    children: Mutex<Vec<Child>>,
}

pub(crate) enum Ground {
    Files(Files),
    Database(Database),
}

/// The stores of a run, by their suffix: ours, the raw twin, and the short queue.
pub(crate) const OURS: &str = "";
pub(crate) const RAW: &str = "-raw";
pub(crate) const SHALLOW: &str = "-shallow";
pub(crate) const STORES: [&str; 3] = [OURS, RAW, SHALLOW];

impl Place {
    fn new(ground: Ground) -> Self {
        Place { ground, children: Mutex::default() }
    }

    /// A new folder in `parent`.
    pub fn folder_in(parent: &Path) -> Result<Self, Error> {
        Files::folder_in(parent).map(Ground::Files).map(Place::new)
    }

    /// A new store at `path`, and others beside it. All names must be free.
    pub fn at(path: &Path) -> Result<Self, Error> {
        Files::at(path).map(Ground::Files).map(Place::new)
    }

    /// New schemas in a database, which stays as it is otherwise.
    pub fn in_database(address: &str) -> Result<Self, Error> {
        Database::at(address).map(Ground::Database).map(Place::new)
    }

    /// Removes everything, also while it is in use: for whoever ends the process.
    pub fn clear(&self) {
        self.end_children(|_| true);
        match &self.ground {
            Ground::Files(files) => files.clear(),
            // Nobody is left to be told; the schemas were named when the run began.
            Ground::Database(database) => drop(database.clear()),
        }
    }

    /// Takes care of a process: it ends when the run does, however that ends.
    pub(crate) fn adopt(&self, child: Child) {
        self.children().push(child);
    }

    /// Ends those processes of the run that are meant, and waits for each.
    pub(crate) fn end_children(&self, is_meant: impl Fn(&Child) -> bool) {
        for mut child in self.children().extract_if(.., |child| is_meant(child)) {
            // Both can only fail for a process that is gone.
            drop(child.kill());
            drop(child.wait());
        }
    }

    fn children(&self) -> MutexGuard<'_, Vec<Child>> {
        self.children.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What people are told: where to look while it runs.
    pub fn shown(&self) -> String {
        match &self.ground {
            Ground::Files(files) => files.shown().display().to_string(),
            Ground::Database(database) => database.shown(),
        }
    }

    /// Where one of [`STORES`] is, without anything of an earlier part.
    pub(crate) fn fresh(&self, store: &str) -> Result<Site, Error> {
        match &self.ground {
            Ground::Files(files) => files.fresh(store).map(Site::File),
            Ground::Database(database) => database.fresh(store).map(Site::Schema),
        }
    }

    /// A new folder for a server, without a file of an earlier part.
    pub(crate) fn door(&self) -> Result<PathBuf, Error> {
        match &self.ground {
            Ground::Files(files) => files.door(),
            Ground::Database(_) => Err(Error::Unmeasurable(
                "the door is measured over SQLite: leave --store away or name a file with sqlite:<path>"
                    .into(),
            )),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Where one store of a run is: ours, or the twin.
#[derive(Clone)]
pub(crate) enum Site {
    File(PathBuf),
    Schema(Schema),
}

impl Site {
    /// Puts what was written where it belongs. A closed file has done so by itself.
    pub(crate) async fn settle(&self) -> Result<(), Error> {
        match self {
            Site::File(_) => Ok(()),
            Site::Schema(schema) => schema.settle().await,
        }
    }

    pub(crate) async fn bytes(&self) -> Result<u64, Error> {
        match self {
            Site::File(path) => match fs::metadata(path) {
                Ok(file) => Ok(file.len()),
                Err(error) => Err(failed("weighing", path, error)),
            },
            Site::Schema(schema) => schema.bytes().await,
        }
    }
}
