//! Let an operator in who has lost the key.

use crate::{
    admin_key,
    args::{KeysBootstrapArgs, KeysCommand},
    serve::folder_of,
};
use anyhow::{Result, bail};
use platform::{SystemClock, SystemDice};
use std::{process::ExitCode, sync::Arc};
use store::{Options, Sqlite};
use tokio::runtime::Builder;

pub(crate) fn run(command: &KeysCommand) -> Result<ExitCode> {
    match command {
        KeysCommand::Bootstrap(args) => bootstrap(args),
    }
}

/// Whoever can write into the data folder owns the house anyway; that it was done stands in the audit log.
fn bootstrap(args: &KeysBootstrapArgs) -> Result<ExitCode> {
    let path = &args.store.store.path;
    if !path.exists() {
        bail!("there is no store at {}; name another with --store sqlite:<path>", path.display());
    }
    let (clock, dice) = (Arc::new(SystemClock::new()), Arc::new(SystemDice));
    let store = Sqlite::open(path, clock.clone(), dice.clone(), Options::default())?;
    let runtime = Builder::new_current_thread().build()?;
    let key = runtime.block_on(admin_key::another(&store, folder_of(path), &*clock, &*dice))?;
    println!("a key that may do everything is in {}", key.display());
    println!("revoke the one that was lost: DELETE /api/keys/{{id}}; GET /api/keys lists them");
    Ok(ExitCode::SUCCESS)
}
