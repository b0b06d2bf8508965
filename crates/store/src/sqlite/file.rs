//! What SQLite leaves to us about files: that nobody else reads them, and that their names are on the
//! disk as well.

use std::{
    ffi::OsString,
    fs::{File, OpenOptions},
    io,
    path::{Path, PathBuf},
};

/// Makes sure that there is a file at `path`. A new one is for its owner's eyes only: payloads are in
/// it, and SQLite gives the files beside it the same rights.
pub(super) fn make_private(path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(drop)
}

/// Brings the name of a new file to the disk. SQLite does so for its logs, but not for the file itself:
/// after a power failure an acknowledged job could lie in a file without a name.
pub(super) fn sync_folder(of: &Path) -> io::Result<()> {
    File::open(folder(of))?.sync_all()
}

/// The folder that a file lies in.
pub(super) fn folder(of: &Path) -> &Path {
    of.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."))
}

/// A file that lies beside the store and is named after it.
pub(super) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".");
    name.push(ending);
    name.into()
}
