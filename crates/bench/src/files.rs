//! The files of a run: created when it begins, removed when it ends.

use crate::{Error, run_folder::STORES};
use std::{
    fs, io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

pub(crate) struct Files {
    store: PathBuf,
    /// The folder that the run created for them, if it did.
    folder: Option<PathBuf>,
}

/// The suffix of the folder in which a server keeps its store.
const SERVER_FOLDER: &str = "-server";
/// The suffixes of the files that SQLite and the lock put beside a store.
const BESIDE: [&str; 5] = ["", "-wal", "-shm", "-journal", ".lock"];

impl Files {
    pub(crate) fn folder_in(parent: &Path) -> Result<Self, Error> {
        let path = parent.join(format!("consign-bench-{}", std::process::id()));
        match make_private(&path) {
            Ok(()) => Ok(Files { store: path.join("store.db"), folder: Some(path) }),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(Error::Exists(path)),
            Err(error) => Err(failed("making the folder", &path, error)),
        }
    }

    pub(crate) fn at(path: &Path) -> Result<Self, Error> {
        let mut all = STORES
            .iter()
            .flat_map(|store| files_of(path, store))
            .chain([with(path, SERVER_FOLDER)]);
        match all.find(|file| file.symlink_metadata().is_ok()) {
            Some(existing) => Err(Error::Exists(existing)),
            None => Ok(Files { store: path.to_owned(), folder: None }),
        }
    }

    pub(crate) fn clear(&self) {
        // No caller is left to report an error to; the run named the folder when it started.
        STORES.iter().for_each(|store| drop(self.fresh(store)));
        drop(fs::remove_dir_all(with(&self.store, SERVER_FOLDER)));
        drop(self.folder.as_ref().map(fs::remove_dir_all));
    }

    pub(crate) fn shown(&self) -> &Path {
        self.folder.as_deref().unwrap_or(&self.store)
    }

    /// The path of one of [`STORES`]. Removes its files, and reports one that remains after all
    /// were tried.
    pub(crate) fn fresh(&self, store: &str) -> Result<PathBuf, Error> {
        let removed = files_of(&self.store, store).map(|path| match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(failed("removing", &path, error))
            }
            _ => Ok(()),
        });
        removed.into_iter().collect::<Result<(), Error>>()?;
        Ok(with(&self.store, store))
    }

    pub(crate) fn server_folder(&self) -> Result<PathBuf, Error> {
        let path = with(&self.store, SERVER_FOLDER);
        let created = match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => make_private(&path),
        };
        created.map_err(|error| failed("making the folder", &path, error))?;
        Ok(path)
    }
}

/// Only for this user: a server keeps its keys in such a folder.
fn make_private(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().mode(0o700).create(folder)
}

fn files_of(run: &Path, store: &str) -> [PathBuf; BESIDE.len()] {
    BESIDE.map(|beside| with(run, &format!("{store}{beside}")))
}

pub(crate) fn failed(doing: &str, path: &Path, error: io::Error) -> Error {
    Error::Failed(format!("{doing} {}", path.display()), error.into())
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
    fn existing_files_are_neither_used_nor_removed() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("a.db");
        for existing in
            ["a.db", "a.db-wal", "a.db.lock", "a.db-raw", "a.db-shallow-shm", "a.db-server"]
        {
            let existing = folder.path().join(existing);
            fs::write(&existing, "precious").unwrap();
            assert!(matches!(Files::at(&store), Err(Error::Exists(path)) if path == existing));
            assert_eq!(fs::read(&existing).unwrap(), b"precious");
            fs::remove_file(&existing).unwrap();
        }
    }

    #[test]
    fn everything_of_a_run_is_gone_afterwards() {
        let folder = tempfile::tempdir().unwrap();
        let unrelated = folder.path().join("a.db.old");
        fs::write(&unrelated, "not ours").unwrap();
        let both = [Files::at(&folder.path().join("a.db")), Files::folder_in(folder.path())];
        for files in both.map(Result::unwrap) {
            for path in STORES.iter().flat_map(|store| files_of(&files.store, store)) {
                fs::write(path, "ours").unwrap();
            }
            fs::write(files.server_folder().unwrap().join("admin.key"), "ours").unwrap();
            files.clear();
        }
        let left: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|f| f.unwrap().path()).collect();
        assert_eq!(left, [unrelated]);
    }
}
