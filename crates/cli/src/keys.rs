//! Keys: asked of a server; and an operator let in who has lost the last one.

use crate::{
    admin_key,
    args::{KeysArgs, KeysBootstrapArgs, KeysCommand},
    config::present_store_of,
    remote,
    serve::folder_of,
};
use anyhow::Result;
use platform::{SystemClock, SystemDice};
use std::{process::ExitCode, sync::Arc};
use store::{Options, Sqlite};
use tokio::runtime::Builder;

pub(crate) fn run(args: &KeysArgs) -> Result<ExitCode> {
    match &args.command {
        None => remote::list_keys(&args.remote),
        Some(KeysCommand::List(args)) => remote::list_keys(&args.remote),
        Some(KeysCommand::Create(args)) => remote::create_key(args),
        Some(KeysCommand::Revoke(args)) => remote::revoke_keys(args),
        Some(KeysCommand::Bootstrap(args)) => bootstrap(args),
    }
}

/// Whoever can write into the data folder owns the house anyway; that it was done stands in the audit log.
fn bootstrap(args: &KeysBootstrapArgs) -> Result<ExitCode> {
    let path = &present_store_of(&args.store)?;
    let (clock, dice) = (Arc::new(SystemClock::new()), Arc::new(SystemDice));
    let store = Sqlite::open(path, clock.clone(), dice.clone(), Options::default())?;
    let runtime = Builder::new_current_thread().build()?;
    let key = runtime.block_on(admin_key::another(&store, folder_of(path), &*clock, &*dice))?;
    println!("a key that may do everything is in {}", key.display());
    println!("revoke the one that was lost: `consign keys list`, then `consign keys revoke ID`");
    Ok(ExitCode::SUCCESS)
}
