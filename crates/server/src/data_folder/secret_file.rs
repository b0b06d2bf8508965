//! Secrets in the data folder: readable by this user alone, written whole or not at all, and never
//! overwritten.

use super::{FileError, TEMPORARY};
use rustix::fs::OFlags;
use std::{
    fs::{File, OpenOptions},
    io::{self, ErrorKind, Read, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::Path,
};

/// Reads a secret, if it is there. A file that other users can read or replace is refused.
pub fn read(path: &Path) -> Result<Option<String>, FileError> {
    let shown = path.display();
    let unreadable = || FileError::caused(format!("{shown} cannot be read"));
    // A user who can place a link here must not choose which file becomes a secret. Nor must a FIFO
    // block the start.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let mut file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable()(error)),
    };
    let metadata = file.metadata().map_err(unreadable())?;
    if !metadata.is_file() {
        return Err(FileError::new(format!(
            "{shown} is no regular file; move it away, and the next start makes a new one"
        )));
    }
    let (owner, user) = (metadata.uid(), rustix::process::geteuid().as_raw());
    if owner != user {
        return Err(FileError::new(format!(
            "{shown} belongs to user {owner}, who knows what is in it, and consign runs as user {user}; run it as \
             that user, or move the file away, and the next start makes a new one"
        )));
    }
    let mode = metadata.mode();
    if mode & 0o077 != 0 {
        return Err(FileError::new(format!(
            "{shown} can be read or written by others (mode {:o}), so it is no secret; `chmod 600 {shown}` \
             if no other user did, else move it away, and the next start makes a new one",
            mode & 0o777
        )));
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(unreadable())?;
    Ok(Some(text.trim().to_owned()))
}

/// Writes the file as a whole or not at all, readable by this user alone, and never over another.
pub fn write(folder: &Path, path: &Path, text: &str) -> Result<(), FileError> {
    let write_file = || -> io::Result<()> {
        let mut file = tempfile::Builder::new().prefix(TEMPORARY).tempfile_in(folder)?; // mode 0600
        writeln!(file, "{text}")?;
        file.as_file().sync_all()?;
        file.persist_noclobber(path).map_err(|failed| failed.error)?;
        File::open(folder)?.sync_all()?;
        Ok(())
    };
    write_file().map_err(FileError::caused(format!("{} cannot be written", path.display())))
}
