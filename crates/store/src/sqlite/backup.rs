//! A copy of the whole store, made while it is in use, and a store made from such a copy.

use super::{
    Sqlite, audit,
    body::to_row,
    doctor::{Finding, examine_files},
    error::{OpenError, Result, TransactionError},
    file::{open_private, private_folder_beside, sync_folder, with_suffix},
    lock::LockFile,
    open::{Files, Role, run_missing, schema_of},
    sql,
    writer_cache::load_store_meta,
};
use crate::oneshot::oneshot;
use engine::{AuditNote, Timestamp};
use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};
use tempfile::TempDir;

impl Sqlite {
    /// Copies the store as it is at one moment to a new file, while work goes on.
    pub async fn backup(&self, to: impl Into<PathBuf>) -> Result<(), OpenError> {
        let (files, to) = (self.files.clone(), to.into());
        let failed = |source| OpenError::File { path: to.clone(), source };
        let (sender, receiver) = oneshot();
        // A thread of its own: a copy may take minutes, and meanwhile leases end and listings are
        // read.
        let copy_to = to.clone();
        let copying = move || drop(sender.send(copy(&files, &copy_to)));
        let thread = std::thread::Builder::new().name("consign-backup".into());
        thread.spawn(copying).map_err(failed)?;
        receiver.await.unwrap_or_else(|broken| Err(failed(io::Error::other(broken))))
    }
}

/// The same for a store that another process may have open: reading does not disturb that process.
pub fn backup(store: &Path, to: &Path) -> Result<(), OpenError> {
    copy(&Files { path: store.to_owned(), vfs: None }, to)
}

fn copy(files: &Files, to: &Path) -> Result<(), OpenError> {
    refuse_existing(to, &[""])?;
    let partial = Partial::beside(to)?;
    partial.fill_from(files)?;
    partial.check(&files.path)?;
    partial.publish()
}

fn refuse_existing(path: &Path, suffixes: &[&str]) -> Result<(), OpenError> {
    let existing =
        suffixes.iter().map(|suffix| with_suffix(path, suffix)).find(|path| path.exists());
    existing.map_or(Ok(()), |path| Err(OpenError::Exists { path }))
}

/// A copy that is not complete yet. If it is dropped before it is complete, its folder is deleted.
struct Partial<'a> {
    path: PathBuf,
    to: &'a Path,
    /// Holds the file, and the files that SQLite creates beside it while filling it.
    _folder: TempDir,
}

impl<'a> Partial<'a> {
    fn beside(to: &'a Path) -> Result<Self, OpenError> {
        let failed = |source| OpenError::File { path: to.to_owned(), source };
        let folder = private_folder_beside(to).map_err(failed)?;
        let path = folder.path().join("partial.db");
        // SQLite copies into an empty file. Without one it would create a file that other users can
        // read.
        drop(open_private(&path)?);
        Ok(Partial { path, to, _folder: folder })
    }

    fn fill_from(&self, files: &Files) -> Result<(), OpenError> {
        let unusable = |error| OpenError::unusable(&files.path, error);
        let db = files.connect(Role::ExternalReader).map_err(unusable)?;
        let target = self.path.to_str().ok_or_else(|| OpenError::File {
            path: self.to.to_owned(),
            source: io::ErrorKind::InvalidFilename.into(),
        })?;
        let copied = db.execute("vacuum into ?1", [target]).map_err(TransactionError::from);
        copied.map(drop).map_err(|error| {
            if error.is_no_database() {
                return unusable(error);
            }
            OpenError::NotCopied { path: self.to.to_owned(), source: error.into_store_error() }
        })
    }

    /// Refuses a damaged copy: it would replace a good one.
    fn check(&self, source: &Path) -> Result<(), OpenError> {
        let files = Files { path: self.path.clone(), vfs: None };
        let path = source.to_owned();
        let health = match examine_files(&files, Timestamp::default(), &mut |_| {}) {
            Err(OpenError::NotOurs { .. }) => return Err(OpenError::NotOurs { path }),
            Err(OpenError::TooNew { version, supported_version, .. }) => {
                return Err(OpenError::TooNew { path, version, supported_version });
            }
            examined => examined?,
        };
        match health.findings.into_iter().find(|finding| finding.damage) {
            Some(Finding { what, .. }) => Err(OpenError::Damaged { path, what }),
            None => Ok(()),
        }
    }

    /// Links the file to its final name. The name shows the complete file or does not exist; an
    /// existing file is not replaced.
    fn publish(self) -> Result<(), OpenError> {
        let published = || -> io::Result<()> {
            File::open(&self.path)?.sync_all()?;
            fs::hard_link(&self.path, self.to)?;
            sync_folder(self.to)
        };
        let path = self.to.to_owned();
        published().map_err(|source| {
            let exists = source.kind() == io::ErrorKind::AlreadyExists;
            if exists { OpenError::Exists { path } } else { OpenError::File { path, source } }
        })
    }
}

/// Makes a store from a backup. It gets a new epoch: a worker that held a lease when the backup was
/// made may have settled it since, after the state of the backup, so the lease must not be valid.
///
/// The audit log of the new store says who restored it, and when (`audited`): the store appears at
/// its name with that entry, or not at all.
///
/// Never overwrites what is at `to`. It also refuses a log that was left there: SQLite would take
/// it for the new store's own.
pub fn restore(
    backup: &Path,
    to: &Path,
    audited: Option<(AuditNote, Timestamp)>,
) -> Result<(), OpenError> {
    let holder = format!("process {}, restoring", std::process::id());
    let _lock = LockFile::lock(to, &holder)?;
    refuse_existing(to, &["", "-wal", "-journal"])?;
    let partial = Partial::beside(to)?;
    // Not a plain copy: the given backup may be a store with a log of its own.
    partial.fill_from(&Files { path: backup.to_owned(), vfs: None })?;
    partial.check(backup)?;
    mark_restored(&partial.path, audited).map_err(|error| OpenError::unusable(backup, error))?;
    partial.publish()
}

fn mark_restored(partial: &Path, audited: Option<(AuditNote, Timestamp)>) -> Result<()> {
    let mut db = Files { path: partial.to_owned(), vfs: None }.connect(Role::Writer)?;
    // A backup of an older version may have no table for the audit entry. The file stays without a
    // log: only the file itself is published.
    let (_, version) = schema_of(&db)?;
    run_missing(&mut db, version)?;
    let mut store_meta = load_store_meta(&db)?;
    store_meta.epoch += 1;
    db.execute(sql::STORE_META_PUT, [to_row(1, &store_meta)])?;
    audited.map_or(Ok(()), |(note, at)| audit::append(&db, note, at))
}
