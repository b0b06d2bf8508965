//! A copy of everything, made while the store is at work, and a store made from such a copy.

use super::{
    Sqlite,
    body::to_row,
    error::{OpenError, Trouble},
    file::{beside, make_private, sync_folder},
    known::load_house,
    lock::LockFile,
    open::{Files, Role, is_ours, schema_of},
    sql,
};
use engine::{SeededBug, planted};
use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

impl Sqlite {
    /// Copies everything as it is at one moment to a new file, while work goes on.
    pub async fn backup(&self, to: impl Into<PathBuf>) -> Result<(), OpenError> {
        let (files, to) = (self.files.clone(), to.into());
        let unheard = OpenError::File { path: to.clone(), source: io::ErrorKind::Other.into() };
        self.slow.ask(move |_| copy(&files, &to)).await.unwrap_or(Err(unheard))
    }
}

/// The same for a store that another process may have open: reading disturbs nobody.
pub fn backup(store: &Path, to: &Path) -> Result<(), OpenError> {
    copy(&Files { path: store.to_owned(), vfs: None }, to)
}

fn copy(files: &Files, to: &Path) -> Result<(), OpenError> {
    refuse_existing(files, to)?;
    let partial = beside(to, "partial");
    let unusable =
        |trouble: Trouble| OpenError::Store { path: files.path.clone(), source: trouble.told() };
    let copied = || -> Result<(), Trouble> {
        let db = files.connect(Role::Reader)?;
        let target = partial.to_str().ok_or(Trouble::Impossible("the path is no text"))?;
        db.execute("vacuum into ?1", [target])?;
        Ok(())
    };
    if files.vfs.is_some() {
        return copied().map_err(unusable); // a test's own files: it finds the partial one
    }
    drop(fs::remove_file(&partial)); // left by a backup that was interrupted
    let failed = |source| OpenError::File { path: partial.clone(), source };
    make_private(&partial).map_err(failed)?; // SQLite copies into an empty file
    copied().map_err(unusable)?;
    publish(&partial, to)
}

fn refuse_existing(files: &Files, to: &Path) -> Result<(), OpenError> {
    if files.vfs.is_none() && to.exists() {
        return Err(OpenError::Exists { path: to.to_owned() });
    }
    Ok(())
}

/// Brings a finished file to its place. It is there whole, or it is not there.
fn publish(partial: &Path, to: &Path) -> Result<(), OpenError> {
    let published = || -> io::Result<()> {
        File::open(partial)?.sync_all()?;
        fs::rename(partial, to)?;
        sync_folder(to)
    };
    published().map_err(|source| OpenError::File { path: to.to_owned(), source })
}

/// Makes a store from a backup. It has a new epoch: whoever held a lease when the backup was made may
/// have settled it since, in a future that no longer exists, and must not be believed.
///
/// What is at `to` is never written over.
pub fn restore(backup: &Path, to: &Path) -> Result<(), OpenError> {
    let files = Files { path: to.to_owned(), vfs: None };
    let _lock = LockFile::take(to, &format!("process {}, restoring", std::process::id()))?;
    refuse_existing(&files, to)?;
    let partial = beside(to, "partial");
    let copied = fs::copy(backup, &partial);
    copied.map_err(|source| OpenError::File { path: backup.to_owned(), source })?;
    raise_epoch(&partial, backup)?;
    publish(&partial, to)
}

fn raise_epoch(partial: &Path, backup: &Path) -> Result<(), OpenError> {
    let path = backup.to_owned();
    let files = Files { path: partial.to_owned(), vfs: None };
    let raised = || -> Result<bool, Trouble> {
        let db = files.connect(Role::Writer)?;
        if !is_ours(schema_of(&db)?) {
            return Ok(false);
        }
        let sound: String = db.query_row("pragma integrity_check(1)", [], |row| row.get(0))?;
        if sound != "ok" {
            return Err(Trouble::Impossible("the backup is damaged"));
        }
        let mut house = load_house(&db)?;
        house.epoch += u32::from(!planted(SeededBug::EpochNotRaised));
        db.execute(sql::HOUSE_PUT, [to_row(1, &house)])?;
        // One file again: the log of a copy is not copied with it.
        db.query_row("pragma wal_checkpoint(truncate)", [], |_| Ok(()))?;
        Ok(true)
    };
    match raised() {
        Ok(true) => Ok(()),
        Ok(false) => Err(OpenError::NotOurs { path }),
        Err(trouble) => Err(OpenError::Store { path, source: trouble.told() }),
    }
}
