//! Keys: asked of a server; and an operator let in who has lost the last one.

use crate::{
    admin_key::AdminKeys,
    args::{KeysArgs, KeysCommand, KeysWebhookArgs, StoreArgs},
    config::{present_store_of, store_of},
    open_store,
    ready_made::signing,
    remote,
};
use anyhow::Result;
use engine::JobType;
use platform::{SystemClock, SystemRandom};
use std::{process::ExitCode, sync::Arc};
use tokio::runtime::Builder;

pub(crate) fn run(args: &KeysArgs) -> Result<ExitCode> {
    match &args.command {
        None => remote::list_keys(&args.remote),
        Some(KeysCommand::List(args)) => remote::list_keys(args),
        Some(KeysCommand::Create(args)) => remote::create_key(args),
        Some(KeysCommand::Revoke(args)) => remote::revoke_keys(args),
        Some(KeysCommand::Bootstrap(args)) => bootstrap(args),
        Some(KeysCommand::Webhook(args)) => webhook(args),
    }
}

/// The secret of one type alone, so that an operator need not hand the key that all are made from
/// to a receiver.
fn webhook(args: &KeysWebhookArgs) -> Result<ExitCode> {
    let job_type = JobType::parse(&args.job_type)?;
    let folder = store_of(&args.store)?.folder().to_owned();
    println!("{}", signing::secret_of_type(&folder, &job_type)?);
    Ok(ExitCode::SUCCESS)
}

/// Whoever can write into the store owns the house anyway; that it was done stands in the audit log.
fn bootstrap(args: &StoreArgs) -> Result<ExitCode> {
    let address = present_store_of(args)?;
    let (clock, random) = (Arc::new(SystemClock::new()), Arc::new(SystemRandom));
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let key = runtime.block_on(async {
        let store = open_store::visit(&address, clock.clone(), random.clone()).await?;
        let folder = address.folder();
        AdminKeys { store: &store, folder, clock: &*clock, random: &*random }.another().await
    })?;
    println!("a key that may do everything is in {}", key.display());
    println!("revoke the one that was lost: `consign keys list`, then `consign keys revoke ID`");
    Ok(ExitCode::SUCCESS)
}
