//! Copy a store.

use crate::{args::BackupArgs, config::present_store_of};
use anyhow::{Context, Result};
use std::{fs, process::ExitCode};

pub(crate) fn run(args: &BackupArgs) -> Result<ExitCode> {
    let (store, to) = (present_store_of(&args.store)?, &args.to);
    eprintln!("copying and checking {} …", store.display());
    store::backup(&store, to).context("no backup was made")?;
    let bytes = fs::metadata(to).map_or(0, |file| file.len());
    println!("{} holds everything as of now ({} KiB)", to.display(), bytes.div_ceil(1024));
    Ok(ExitCode::SUCCESS)
}
