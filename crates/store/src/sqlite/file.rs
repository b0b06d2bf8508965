//! What SQLite leaves to us about files: that nobody else reads them, and that their names are on the
//! disk as well.

use std::{
    ffi::OsString,
    fs::{File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
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

/// Writes a file over with what it holds, and syncs it. A sync alone would not do: after one that failed,
/// the system believes that there is nothing left to write. Whoever reads meanwhile reads the same.
pub(super) fn write_again(path: &Path) -> io::Result<()> {
    let mut file = OpenOptions::new().read(true).write(true).open(path)?;
    let (mut piece, mut at) = (vec![0; 1 << 20], 0);
    loop {
        file.seek(SeekFrom::Start(at))?;
        let length = file.read(&mut piece)?;
        if length == 0 {
            return file.sync_data();
        }
        file.seek(SeekFrom::Start(at))?;
        file.write_all(&piece[..length])?;
        at += length as u64;
    }
}

/// The folder that a file lies in.
pub(super) fn folder(of: &Path) -> &Path {
    of.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."))
}

/// A file of ours that lies beside the store and is named after it.
pub(super) fn beside(path: &Path, ending: &str) -> PathBuf {
    with(path, &format!(".{ending}"))
}

/// The path with something at its end, as SQLite names its own files.
pub(super) fn with(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    name.into()
}
