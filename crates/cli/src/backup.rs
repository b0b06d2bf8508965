//! Copy a store.

use crate::args::BackupArgs;
use anyhow::{Context, Result, bail};
use std::{fs, process::ExitCode};

pub(crate) fn run(args: &BackupArgs) -> Result<ExitCode> {
    let (store, to) = (&args.store.store.path, &args.to);
    if !store.exists() {
        bail!("there is no store at {}; name another with --store sqlite:<path>", store.display());
    }
    eprintln!("copying and checking {} …", store.display());
    store::backup(store, to).context("no backup was made")?;
    let bytes = fs::metadata(to).map_or(0, |file| file.len());
    println!("{} holds everything as of now ({} KiB)", to.display(), bytes.div_ceil(1024));
    Ok(ExitCode::SUCCESS)
}
