//! Makes a store from a backup.

use crate::{
    args::{RestoreArgs, StoreAddress},
    config_command::store_of,
    data_folder,
    restored::note_of_restore,
};
use anyhow::{Context, Result, bail};
use platform::SystemClock;
use std::process::ExitCode;
use store::Clock;

pub(crate) fn run(args: &RestoreArgs) -> Result<ExitCode> {
    let from = &args.from;
    let address = store_of(&args.store)?;
    let to = match &address {
        StoreAddress::Sqlite(path) => path,
        StoreAddress::Postgres(address) => bail!(
            "nothing was restored: {address} is restored with PostgreSQL's own tools, while no node runs, as in \
             `pg_restore --single-transaction --dbname=DATABASE {}`, by a role that may create schemas in the \
             database; then tell it that leases from before are void: `consign restored`",
            from.display()
        ),
    };
    if !from.exists() {
        bail!("there is no backup at {}", from.display());
    }
    data_folder::prepare(&address)?;
    eprintln!("copying and checking {} …", from.display());
    let (target, backup) = (to.display().to_string(), from.display().to_string());
    let note = note_of_restore("consign restore", &target, Some(backup))?;
    let audited = Some((note, SystemClock::new().read().wall));
    store::restore(from, to, audited).context("nothing was restored")?;
    println!("{} is as it was when the backup was made", to.display());
    println!(
        "what happened since then is gone; jobs that ran at that time are free again when their"
    );
    println!("leases are over, and no worker can settle them with such a lease");
    Ok(ExitCode::SUCCESS)
}
