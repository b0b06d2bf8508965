//! The files of a run: new when it begins, gone when it ends.

use crate::Error;
use std::{
    fs, io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

/// Where a run keeps its files.
pub(crate) struct Files {
    store: PathBuf,
    /// The folder that was made for them, if one was.
    folder: Option<PathBuf>,
}

/// What is added to the name of the store: ours, the raw twin, and the queue that is not deep.
const STORES: [&str; 3] = ["", "-raw", "-shallow"];
/// The same of the folder in which a server lives.
const DOOR: &str = "-door";
/// What SQLite and the lock put beside a store.
const BESIDE: [&str; 5] = ["", "-wal", "-shm", "-journal", ".lock"];

impl Files {
    /// A new folder in `parent`.
    pub(crate) fn folder_in(parent: &Path) -> Result<Self, Error> {
        let path = parent.join(format!("consign-bench-{}", std::process::id()));
        match make_private(&path) {
            Ok(()) => Ok(Files { store: path.join("store.db"), folder: Some(path) }),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(Error::Exists(path)),
            Err(source) => Err(Error::File { doing: "making the folder", path, source }),
        }
    }

    /// A new store at `path`, and others beside it. All names must be free.
    pub(crate) fn at(path: &Path) -> Result<Self, Error> {
        match all(path).into_iter().find(|file| file.symlink_metadata().is_ok()) {
            Some(taken) => Err(Error::Exists(taken)),
            None => Ok(Files { store: path.to_owned(), folder: None }),
        }
    }

    /// Removes everything, also while it is in use.
    pub(crate) fn clear(&self) {
        // Nobody is left to be told; the place was said when the run began.
        match &self.folder {
            Some(folder) => drop(fs::remove_dir_all(folder)),
            None => {
                files(&self.store).iter().for_each(|file| drop(remove(file)));
                drop(fs::remove_dir_all(with(&self.store, DOOR)));
            }
        }
    }

    pub(crate) fn shown(&self) -> &Path {
        self.folder.as_deref().unwrap_or(&self.store)
    }

    /// Store number so and so, without a file of an earlier part.
    pub(crate) fn fresh(&self, number: usize) -> Result<PathBuf, Error> {
        let name = STORES[number];
        for path in BESIDE.map(|beside| with(&self.store, &format!("{name}{beside}"))) {
            remove(&path)?;
        }
        Ok(with(&self.store, name))
    }

    /// A new folder for a server, without a file of an earlier part.
    pub(crate) fn door(&self) -> Result<PathBuf, Error> {
        let path = with(&self.store, DOOR);
        let made = match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => make_private(&path),
        };
        match made {
            Ok(()) => Ok(path),
            Err(source) => Err(Error::File { doing: "making the folder", path, source }),
        }
    }
}

/// Every name that a run may use.
/// A server keeps its keys in a folder of these.
fn make_private(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().mode(0o700).create(folder)
}

fn files(store: &Path) -> Vec<PathBuf> {
    let names = STORES.iter().flat_map(|name| BESIDE.map(|beside| format!("{name}{beside}")));
    names.map(|name| with(store, &name)).collect()
}

/// The same, and the folder of a server.
fn all(store: &Path) -> Vec<PathBuf> {
    [files(store), vec![with(store, DOOR)]].concat()
}

fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(Error::File { doing: "removing", path: path.to_owned(), source }),
    }
}

fn with(path: &Path, more: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(more);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_neither_used_nor_removed() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("a.db");
        for taken in ["a.db", "a.db-wal", "a.db.lock", "a.db-raw", "a.db-shallow-shm", "a.db-door"]
        {
            let taken = folder.path().join(taken);
            fs::write(&taken, "precious").unwrap();
            assert!(matches!(Files::at(&store), Err(Error::Exists(path)) if path == taken));
            assert_eq!(fs::read(&taken).unwrap(), b"precious");
            fs::remove_file(&taken).unwrap();
        }
    }

    #[test]
    fn everything_of_a_run_is_gone_afterwards() {
        let folder = tempfile::tempdir().unwrap();
        let neighbour = folder.path().join("a.db.old");
        fs::write(&neighbour, "not ours").unwrap();
        let places = [Files::at(&folder.path().join("a.db")), Files::folder_in(folder.path())];
        for place in places.map(Result::unwrap) {
            for path in files(&place.store) {
                fs::write(path, "ours").unwrap();
            }
            fs::write(place.door().unwrap().join("admin.key"), "ours").unwrap();
            place.clear();
        }
        let left: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|f| f.unwrap().path()).collect();
        assert_eq!(left, [neighbour]);
    }
}
