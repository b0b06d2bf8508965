//! A copy of everything, made while the store is at work, and a store made from such a copy.

use super::{
    Sqlite,
    body::to_row,
    error::{OpenError, Trouble},
    file::{beside, make_private, sync_folder, with},
    known::load_house,
    lock::LockFile,
    open::{Files, Role, refuse_foreign, schema_of},
    sql,
};
use crate::promise::promise;
use engine::{SeededBug, planted};
use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

impl Sqlite {
    /// Copies everything as it is at one moment to a new file, while work goes on.
    pub async fn backup(&self, to: impl Into<PathBuf>) -> Result<(), OpenError> {
        let (files, to) = (self.files.clone(), to.into());
        let failed = |source| OpenError::File { path: to.clone(), source };
        let (promise, awaited) = promise();
        // A thread of its own: this may take minutes, in which leases end and listings are read.
        let copy_to = to.clone();
        let copying = move || drop(promise.keep(copy(&files, &copy_to)));
        let named = std::thread::Builder::new().name("consign-backup".into());
        named.spawn(copying).map_err(failed)?;
        awaited.await.unwrap_or_else(|broken| Err(failed(io::Error::other(broken))))
    }
}

/// The same for a store that another process may have open: reading disturbs nobody.
pub fn backup(store: &Path, to: &Path) -> Result<(), OpenError> {
    copy(&Files { path: store.to_owned(), vfs: None }, to)
}

fn copy(files: &Files, to: &Path) -> Result<(), OpenError> {
    if to.exists() {
        return Err(OpenError::Exists { path: to.to_owned() });
    }
    let partial = Partial::beside(to)?;
    partial.fill_from(files)?;
    partial.publish(to)
}

/// A file on its way to be whole. Dropped before it is, it leaves nothing behind.
struct Partial(PathBuf);

impl Partial {
    fn beside(to: &Path) -> Result<Self, OpenError> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = beside(to, &format!("{}-{number}.partial", std::process::id()));
        // SQLite copies into an empty file.
        make_private(&path).map_err(|source| OpenError::File { path: path.clone(), source })?;
        Ok(Partial(path))
    }

    fn fill_from(&self, files: &Files) -> Result<(), OpenError> {
        let failed = |path: &Path, trouble: Trouble| OpenError::Store {
            path: path.to_owned(),
            source: trouble.told(),
        };
        let db = files.connect(Role::Reader).map_err(|trouble| failed(&files.path, trouble))?;
        let target = self.0.to_str().ok_or_else(|| OpenError::File {
            path: self.0.clone(),
            source: io::ErrorKind::InvalidFilename.into(),
        })?;
        let copied = db.execute("vacuum into ?1", [target]).map_err(Trouble::from);
        copied.map(drop).map_err(|trouble| failed(&self.0, trouble))
    }

    /// Brings the file to its place. It is there whole, or it is not there; what is there already stays.
    fn publish(self, to: &Path) -> Result<(), OpenError> {
        let published = || -> io::Result<()> {
            File::open(&self.0)?.sync_all()?;
            fs::hard_link(&self.0, to)?;
            sync_folder(to)
        };
        let path = to.to_owned();
        published().map_err(|source| {
            let taken = source.kind() == io::ErrorKind::AlreadyExists;
            if taken { OpenError::Exists { path } } else { OpenError::File { path, source } }
        })
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        for ending in ["", "-wal", "-shm", "-journal"] {
            drop(fs::remove_file(with(&self.0, ending)));
        }
    }
}

/// Makes a store from a backup. It has a new epoch: whoever held a lease when the backup was made may
/// have settled it since, in a future that no longer exists, and must not be believed.
///
/// What is at `to` is never written over, and a log that was left there would be taken for the new
/// store's own.
pub fn restore(backup: &Path, to: &Path) -> Result<(), OpenError> {
    let _lock = LockFile::take(to, &format!("process {}, restoring", std::process::id()))?;
    for ending in ["", "-wal", "-journal"] {
        let path = with(to, ending);
        if path.exists() {
            return Err(OpenError::Exists { path });
        }
    }
    let partial = Partial::beside(to)?;
    // Not a plain copy: what somebody calls a backup may be a store with a log of its own.
    partial.fill_from(&Files { path: backup.to_owned(), vfs: None })?;
    raise_epoch(&partial.0, backup)?;
    partial.publish(to)
}

fn raise_epoch(partial: &Path, backup: &Path) -> Result<(), OpenError> {
    let files = Files { path: partial.to_owned(), vfs: None };
    let unusable =
        |trouble: Trouble| OpenError::Store { path: backup.to_owned(), source: trouble.told() };
    let db = files.connect(Role::Writer).map_err(unusable)?;
    refuse_foreign(schema_of(&db).map_err(unusable)?, backup)?;
    let raise = || -> Result<(), Trouble> {
        let sound: String = db.query_row("pragma integrity_check(1)", [], |row| row.get(0))?;
        if sound != "ok" {
            return Err(Trouble::Impossible("the backup is damaged"));
        }
        let mut house = load_house(&db)?;
        house.epoch += u32::from(!planted(SeededBug::EpochNotRaised));
        db.execute(sql::HOUSE_PUT, [to_row(1, &house)])?;
        Ok(())
    };
    raise().map_err(unusable)
}
