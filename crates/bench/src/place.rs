//! What a run makes: new when it begins, gone when it ends.

use crate::{Error, database::Database, files::Files, site::Site};
use std::{
    path::{Path, PathBuf},
    process::Child,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Where a run keeps what it makes. Dropped, it removes all of it.
pub struct Place {
    pub(crate) ground: Ground,
    /// Processes that were started to be measured.
    children: Mutex<Vec<Child>>,
}

/// On what a run stands.
pub(crate) enum Ground {
    /// SQLite.
    Files(Files),
    /// PostgreSQL.
    Database(Database),
}

/// Which store of a run: ours, the raw twin, and the queue that is not deep.
const OURS: usize = 0;
const RAW: usize = 1;
const SHALLOW: usize = 2;

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
        self.end_children();
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

    /// Ends the processes of the run, and waits for each.
    pub(crate) fn end_children(&self) {
        for mut child in self.children().drain(..) {
            // Both can only fail for a process that is gone.
            drop(child.kill());
            drop(child.wait());
        }
    }

    /// Ends one of them.
    pub(crate) fn end_child(&self, process: u32) {
        let mut children = self.children();
        for child in children.iter_mut().filter(|child| child.id() == process) {
            drop(child.kill());
            drop(child.wait());
        }
        children.retain(|child| child.id() != process);
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

    /// Where our store is, without anything of an earlier part.
    pub(crate) fn ours(&self) -> Result<Site, Error> {
        self.fresh(OURS)
    }

    /// Where the twin is, without anything of an earlier part.
    pub(crate) fn raw(&self) -> Result<Site, Error> {
        self.fresh(RAW)
    }

    /// Where the second store of ours is, without anything of an earlier part.
    pub(crate) fn shallow(&self) -> Result<Site, Error> {
        self.fresh(SHALLOW)
    }

    fn fresh(&self, number: usize) -> Result<Site, Error> {
        match &self.ground {
            Ground::Files(files) => files.fresh(number).map(Site::File),
            Ground::Database(database) => database.fresh(number).map(Site::Schema),
        }
    }

    /// A new folder for a server, without a file of an earlier part.
    pub(crate) fn door(&self) -> Result<PathBuf, Error> {
        match &self.ground {
            Ground::Files(files) => files.door(),
            Ground::Database(_) => Err(Error::DoorOfDatabase),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.clear();
    }
}
