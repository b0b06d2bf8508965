//! Secrets that lie in the data folder: for this user alone, whole or not at all, and never written over.

use anyhow::{Context, Result, bail};
use rustix::fs::OFlags;
use std::{
    fs::{File, OpenOptions},
    io::{ErrorKind, Read, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::Path,
};
use tempfile::NamedTempFile;

/// What is in the file, if it is there.
pub(crate) fn read(path: &Path) -> Result<Option<String>> {
    let shown = path.display();
    // Whoever can put a link here must not choose which file becomes a secret.
    let nofollow = OFlags::NOFOLLOW.bits().cast_signed();
    let mut file = match OpenOptions::new().read(true).custom_flags(nofollow).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("{shown} cannot be read")),
    };
    let mode = file.metadata().with_context(|| format!("{shown} cannot be read"))?.mode();
    if mode & 0o077 != 0 {
        bail!(
            "{shown} can be read or written by others (mode {:o}), so it is no secret; `chmod 600 {shown}` \
             if nobody did, else move it away, and the next start makes a new one",
            mode & 0o777
        );
    }
    let mut text = String::new();
    file.read_to_string(&mut text).with_context(|| format!("{shown} cannot be read"))?;
    Ok(Some(text.trim().to_owned()))
}

/// Writes the file as a whole or not at all, for this user alone, and never over another.
pub(crate) fn write(folder: &Path, path: &Path, text: &str) -> Result<()> {
    let written = || -> Result<()> {
        let mut file = NamedTempFile::new_in(folder)?; // 0600 from the beginning
        writeln!(file, "{text}")?;
        file.as_file().sync_all()?;
        file.persist_noclobber(path)?;
        File::open(folder)?.sync_all()?;
        Ok(())
    };
    written().with_context(|| format!("{} cannot be written", path.display()))
}
