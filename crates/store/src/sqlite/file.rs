//! What SQLite leaves to its caller: that no other user can read the files, and that their names
//! are on the disk.

use super::error::OpenError;
use rustix::fs::OFlags;
use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};
use tempfile::TempDir;
use tracing::warn;

/// Opens the file at `path` for reading and writing, and creates it if it does not exist. The mode
/// is 0600 whatever the umask says. SQLite gives its `-wal` and `-shm` files the mode of the main
/// file, so this mode holds for all three.
pub(super) fn open_private(path: &Path) -> Result<File, OpenError> {
    let failed = |source| OpenError::File { path: path.to_owned(), source };
    for _ in 0..OPEN_TRIES {
        match options().create_new(true).open(path) {
            Ok(file) => {
                set_mode_0600(&file).map_err(failed)?;
                return Ok(file);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed(error)),
        }
        if let Some(file) = open_present(path)? {
            return Ok(file);
        }
    }
    Err(failed(io::ErrorKind::Interrupted.into()))
}

/// A file can vanish between the two calls that find it, but not this often.
const OPEN_TRIES: usize = 8;

/// Secures a file that SQLite left beside the store, if there is one. Refuses anything but a
/// regular file of this user, and makes it private if an older version or another program left it
/// wider.
pub(super) fn make_private(path: &Path) -> Result<(), OpenError> {
    open_present(path).map(drop)
}

/// Opens the file at `path`, unless another user or a link controls it.
fn open_present(path: &Path) -> Result<Option<File>, OpenError> {
    let untrusted = |reason: String| OpenError::Untrusted { path: path.to_owned(), reason };
    let failed = |source| OpenError::File { path: path.to_owned(), source };
    let file = match options().open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            return Err(match fs::symlink_metadata(path) {
                Ok(metadata) if metadata.is_symlink() => {
                    untrusted("is a link; name the file that it leads to".into())
                }
                Ok(metadata) if !metadata.is_file() => untrusted(NO_REGULAR_FILE.into()),
                Ok(_) | Err(_) => failed(error),
            });
        }
    };
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(untrusted(NO_REGULAR_FILE.into()));
    }
    let user = rustix::process::geteuid().as_raw();
    if metadata.uid() != user {
        let owner = metadata.uid();
        return Err(untrusted(format!(
            "belongs to user {owner}, and this process is user {user}; run it as that user, or give it the \
             file: chown {user} {}",
            path.display()
        )));
    }
    if metadata.mode() & 0o077 != 0 {
        set_mode_0600(&file).map_err(failed)?;
        let (path, mode) = (path.display(), metadata.mode() & 0o777);
        warn!(%path, "other users could read or write this file (mode {mode:o}); its mode is 0600 now");
    }
    Ok(Some(file))
}

const NO_REGULAR_FILE: &str = "is no regular file; move it away";

/// Does not follow links, and a planted FIFO does not block the start.
fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    options.read(true).write(true).mode(0o600).custom_flags(flags);
    options
}

fn set_mode_0600(file: &File) -> io::Result<()> {
    file.set_permissions(fs::Permissions::from_mode(0o600))
}

/// A folder beside `of` under a random name that only this user can enter; deleted when dropped.
/// Other users cannot reach the files in it, including those that SQLite creates by itself.
pub(super) fn private_folder_beside(of: &Path) -> io::Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".consign-").permissions(fs::Permissions::from_mode(0o700));
    builder.tempdir_in(folder(of))
}

/// Syncs the name of a new file. SQLite does this for its logs, but not for the database file:
/// after a power failure, an acknowledged job could be in a file without a name.
pub(super) fn sync_folder(of: &Path) -> io::Result<()> {
    File::open(folder(of))?.sync_all()
}

/// Overwrites a file with its own content, and syncs it. A sync alone is not enough: after a failed
/// sync, the system believes that nothing is left to write. Concurrent readers read the same bytes.
pub(super) fn write_again(path: &Path) -> io::Result<()> {
    let mut file = OpenOptions::new().read(true).write(true).open(path)?;
    let (mut buffer, mut offset) = (vec![0; 1 << 20], 0);
    loop {
        file.seek(SeekFrom::Start(offset))?;
        let length = file.read(&mut buffer)?;
        if length == 0 {
            return file.sync_data();
        }
        file.seek(SeekFrom::Start(offset))?;
        file.write_all(&buffer[..length])?;
        offset += length as u64;
    }
}

pub(super) fn folder(of: &Path) -> &Path {
    of.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."))
}

/// The path with a suffix, as SQLite names its own files.
pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}
