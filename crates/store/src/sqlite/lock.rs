//! One file, one process: the name of the process that has the store is written beside it.

use super::{
    error::OpenError,
    file::{open_private, with_suffix},
};
use std::{
    fs::{File, TryLockError},
    io::{Read, Seek, Write},
    os::unix::fs::MetadataExt,
    path::Path,
};

/// The right to write to a store. The system releases it when the process dies, however it dies.
pub(super) struct LockFile {
    _lock_file: File,
    /// A lock on the store's own file, so that a second path to it is no way around. It must stay
    /// open as long as SQLite has the file open: closing it would drop the locks that SQLite holds.
    _store_file: Option<File>,
}

impl LockFile {
    /// Locks the store at `path`, or returns which process has it.
    pub(super) fn lock(path: &Path, holder: &str) -> Result<Self, OpenError> {
        let lock_path = with_suffix(path, ".lock");
        let failed = |source| OpenError::File { path: path.to_owned(), source };
        let mut file = open_private(&lock_path)?;
        // The holder's name replaces the content of the lock file. If that file is a hard link to
        // another file of this user, the write would destroy that file's content.
        if file.metadata().map_err(failed)?.nlink() > 1 {
            let reason = "is a second name of another file; move it away".into();
            return Err(OpenError::Untrusted { path: lock_path, reason });
        }
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut name = String::new();
                // The process that has the lock may be writing its name at this moment.
                let read = file.read_to_string(&mut name).is_ok() && !name.trim().is_empty();
                let holder = if read { name.trim() } else { OTHER_PROCESS };
                return Err(OpenError::InUse { path: path.to_owned(), holder: holder.into() });
            }
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        let written = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "{holder}"))
            .and_then(|()| file.flush());
        // The name is only for people: a full disk must not keep a process from opening the store.
        drop(written);
        Ok(LockFile { _lock_file: file, _store_file: None })
    }

    /// Locks the store's own file as well.
    pub(super) fn and_store_file(self, path: &Path) -> Result<Self, OpenError> {
        let failed = |source| OpenError::File { path: path.to_owned(), source };
        let file = File::open(path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(LockFile { _store_file: Some(file), ..self }),
            Err(TryLockError::WouldBlock) => {
                let holder = format!("{OTHER_PROCESS}, under another name");
                Err(OpenError::InUse { path: path.to_owned(), holder })
            }
            Err(TryLockError::Error(source)) => Err(failed(source)),
        }
    }
}

const OTHER_PROCESS: &str = "another process";
