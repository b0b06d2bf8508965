//! Make a store from a backup.

use crate::{
    args::{RestoreArgs, StoreAddress},
    config::store_of,
};
use anyhow::{Context, Result, bail};
use std::{fs, path::Path, process::ExitCode};

pub(crate) fn run(args: &RestoreArgs) -> Result<ExitCode> {
    let from = &args.from;
    let to = match store_of(&args.store)? {
        StoreAddress::Sqlite(path) => path,
        StoreAddress::Postgres(address) => bail!(
            "nothing was restored: {address} is restored with PostgreSQL's own tools, while no node runs, as in \
             `pg_restore --dbname=DATABASE {}`; then tell it that leases from before are void: `consign restored`",
            from.display()
        ),
    };
    if !from.exists() {
        bail!("there is no backup at {}", from.display());
    }
    if let Some(folder) = to.parent().filter(|folder| *folder != Path::new("")) {
        fs::create_dir_all(folder)
            .with_context(|| format!("the folder {} cannot be made", folder.display()))?;
    }
    eprintln!("copying and checking {} …", from.display());
    store::restore(from, &to).context("nothing was restored")?;
    println!("{} is as it was when the backup was made", to.display());
    println!(
        "what happened since then is gone; jobs that ran at that time are free again when their"
    );
    println!("leases are over, and no worker can settle them with such a lease");
    Ok(ExitCode::SUCCESS)
}
