//! Secrets in the data folder: readable by this user alone, written whole or not at all, and never
//! overwritten.

use crate::data_folder::TEMPORARY;
use anyhow::{Context, Result, bail};
use rustix::fs::OFlags;
use std::{
    fs::{File, OpenOptions},
    io::{ErrorKind, Read, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::Path,
};

pub(crate) fn read(path: &Path) -> Result<Option<String>> {
    let shown = path.display();
    let unreadable = || format!("{shown} cannot be read");
    // A user who can place a link here must not choose which file becomes a secret. Nor must a FIFO
    // block the start.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let mut file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(unreadable),
    };
    let metadata = file.metadata().with_context(unreadable)?;
    if !metadata.is_file() {
        bail!("{shown} is no regular file; move it away, and the next start makes a new one");
    }
    let (owner, user) = (metadata.uid(), rustix::process::geteuid().as_raw());
    if owner != user {
        bail!(
            "{shown} belongs to user {owner}, who knows what is in it, and consign runs as user {user}; run it as \
             that user, or move the file away, and the next start makes a new one"
        );
    }
    let mode = metadata.mode();
    if mode & 0o077 != 0 {
        bail!(
            "{shown} can be read or written by others (mode {:o}), so it is no secret; `chmod 600 {shown}` \
             if no other user did, else move it away, and the next start makes a new one",
            mode & 0o777
        );
    }
    let mut text = String::new();
    file.read_to_string(&mut text).with_context(unreadable)?;
    Ok(Some(text.trim().to_owned()))
}

/// Writes the file as a whole or not at all, readable by this user alone, and never over another.
pub(crate) fn write(folder: &Path, path: &Path, text: &str) -> Result<()> {
    let write_file = || -> Result<()> {
        let mut file = tempfile::Builder::new().prefix(TEMPORARY).tempfile_in(folder)?; // mode 0600
        writeln!(file, "{text}")?;
        file.as_file().sync_all()?;
        file.persist_noclobber(path)?;
        File::open(folder)?.sync_all()?;
        Ok(())
    };
    write_file().with_context(|| format!("{} cannot be written", path.display()))
}
