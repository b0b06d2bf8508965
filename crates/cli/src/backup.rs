//! Copies a store.

use crate::{
    args::{BackupArgs, StoreAddress},
    config_command::present_store_of,
    data_folder,
};
use anyhow::{Context, Result, bail};
use std::{fs, process::ExitCode};

pub(crate) fn run(args: &BackupArgs) -> Result<ExitCode> {
    let to = &args.to;
    let store = match present_store_of(&args.store)? {
        StoreAddress::Sqlite(path) => path,
        // A copy by Consign would be a slower pg_dump, and operators should restore only with tools
        // that they have practised.
        StoreAddress::Postgres(address) => bail!(
            "no backup was made: {address} is backed up with PostgreSQL's own tools, as in \
             `pg_dump --format=custom --schema={} --file={} DATABASE`, or with pg_basebackup and its WAL; \
             docs/operating.md says which",
            address.schema(),
            to.display()
        ),
    };
    data_folder::check_target(to)?;
    eprintln!("copying and checking {} …", store.display());
    store::backup(&store, to).context("no backup was made")?;
    let bytes = fs::metadata(to).map_or(0, |file| file.len());
    println!("{} holds everything as of now ({} KiB)", to.display(), bytes.div_ceil(1024));
    Ok(ExitCode::SUCCESS)
}
