//! Make a store from a backup.

use crate::args::RestoreArgs;
use anyhow::{Context, Result, bail};
use std::{fs, path::Path, process::ExitCode};

pub(crate) fn run(args: &RestoreArgs) -> Result<ExitCode> {
    let (from, to) = (&args.from, &args.store.store.path);
    if !from.exists() {
        bail!("there is no backup at {}", from.display());
    }
    if let Some(folder) = to.parent().filter(|folder| *folder != Path::new("")) {
        fs::create_dir_all(folder)
            .with_context(|| format!("the folder {} cannot be made", folder.display()))?;
    }
    eprintln!("checking and copying {} …", from.display());
    store::restore(from, to).context("nothing was restored")?;
    println!("{} is as it was when the backup was made", to.display());
    println!("jobs that ran at that time run again once their leases are over; workers that still");
    println!("hold such a lease cannot settle it");
    Ok(ExitCode::SUCCESS)
}
