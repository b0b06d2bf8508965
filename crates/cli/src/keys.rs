//! Key commands against a server, and `bootstrap` for an operator who has lost the last key.

use crate::{
    args::{KeysArgs, KeysCommand, KeysWebhookArgs, StoreArgs},
    config_command::{present_store_of, store_of},
    open_store,
    ready_made::signing,
    remote,
};
use anyhow::Result;
use engine::JobType;
use platform::{SystemClock, SystemRandom};
use server::data_folder::admin_key::AdminKeys;
use std::{process::ExitCode, sync::Arc};
use tokio::runtime::Builder;

pub(crate) fn run(args: &KeysArgs) -> Result<ExitCode> {
    match &args.command {
        None => remote::keys::list(&args.remote),
        Some(KeysCommand::List(args)) => remote::keys::list(args),
        Some(KeysCommand::Create(args)) => remote::keys::create(args),
        Some(KeysCommand::Revoke(args)) => remote::keys::revoke(args),
        Some(KeysCommand::Bootstrap(args)) => bootstrap(args),
        Some(KeysCommand::Webhook(args)) => webhook(args),
    }
}

/// Prints the secret of one type. So an operator need not give a receiver the key from which all
/// secrets are derived.
fn webhook(args: &KeysWebhookArgs) -> Result<ExitCode> {
    let job_type = JobType::parse(&args.job_type)?;
    let folder = store_of(&args.store)?.folder().to_owned();
    println!("{}", signing::secret_of_type(&folder, &job_type)?);
    Ok(ExitCode::SUCCESS)
}

/// Needs no further right: a user who can write to the store controls the installation anyway. The
/// audit log records it.
fn bootstrap(args: &StoreArgs) -> Result<ExitCode> {
    let address = present_store_of(args)?;
    let (clock, random) = (Arc::new(SystemClock::new()), Arc::new(SystemRandom));
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let key = runtime.block_on(async {
        let store = open_store::open_for_command(&address, clock.clone(), random.clone()).await?;
        let folder = address.folder();
        let keys = AdminKeys { store: &store, folder, clock: &*clock, random: &*random };
        anyhow::Ok(keys.make_another().await?)
    })?;
    println!("a key that may do everything is in {}", key.display());
    println!("revoke the one that was lost: `consign keys list`, then `consign keys revoke ID`");
    Ok(ExitCode::SUCCESS)
}
