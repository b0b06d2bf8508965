//! Key commands against a server, `bootstrap` for an operator who has lost the last key, and the
//! secrets of webhooks, which a server does not tell.

use crate::{
    args::{KeysArgs, KeysCommand, KeysWebhookArgs, KeysWebhookKeyArgs, StoreAddress, StoreArgs},
    config_command::present_store_of,
    open_store,
    ready_made::signing::{self, TypeSigners},
    remote,
};
use anyhow::{Context, Result, anyhow, bail};
use engine::{AuditNote, CorrelationId, JobId, JobType, Scope, WebhookKey};
use platform::{SystemClock, SystemRandom};
use server::data_folder::admin_key::AdminKeys;
use std::{path::Path, process::ExitCode, sync::Arc};
use store::{
    Clock, RandomSource, RecordChange, RecordKind, Request, Store, WEBHOOK_KEY, read_records,
};
use tokio::runtime::Builder;

pub(crate) fn run(args: &KeysArgs) -> Result<ExitCode> {
    match &args.command {
        None => remote::keys::list(&args.remote),
        Some(KeysCommand::List(args)) => remote::keys::list(args),
        Some(KeysCommand::Create(args)) => remote::keys::create(args),
        Some(KeysCommand::Rotate(args)) => remote::keys::rotate(args),
        Some(KeysCommand::Revoke(args)) => remote::keys::revoke(args),
        Some(KeysCommand::Bootstrap(args)) => bootstrap(args),
        Some(KeysCommand::Webhook(args)) => webhook(args),
        Some(KeysCommand::WebhookKey(args)) => replace_webhook_key(args),
    }
}

/// Prints the secret of one type, also while a server uses the store. So an operator need not give
/// a receiver the key from which all secrets are derived.
fn webhook(args: &KeysWebhookArgs) -> Result<ExitCode> {
    let job_type = JobType::parse(&args.job_type)?;
    let key = match &args.key {
        Some(file) => key_in(file)?,
        None => stored_key(&present_store_of(&args.store)?)?,
    };
    println!("{}", TypeSigners::of(&key)?.secret_of_type(&job_type));
    Ok(ExitCode::SUCCESS)
}

fn key_in(file: &Path) -> Result<WebhookKey> {
    signing::in_file(file)?.with_context(|| format!("there is no file {}", file.display()))
}

fn stored_key(address: &StoreAddress) -> Result<WebhookKey> {
    let records = match address {
        StoreAddress::Sqlite(path) => read_records(path, RecordKind::WebhookKey)?,
        StoreAddress::Postgres(_) => with_store(address, async |store| {
            Ok(store.records(RecordKind::WebhookKey, None, "").await?)
        })?,
    };
    let Some(record) = records.first() else {
        bail!("{} has no webhook key yet; the first start of a server makes it", address.shown());
    };
    record.read().context("the webhook key of the store is damaged")
}

/// Replaces the key in the store. Like `bootstrap`, it needs no further right, and the audit log
/// records it.
fn replace_webhook_key(args: &KeysWebhookKeyArgs) -> Result<ExitCode> {
    let key = key_in(&args.file)?;
    with_store(&present_store_of(&args.store)?, async |store| {
        let now = SystemClock::new().read().wall;
        let note = AuditNote {
            who: "keys webhook-key".into(),
            name: None,
            scope: Scope::All,
            action: "webhook_key.replace",
            target: WEBHOOK_KEY.into(),
            detail: None,
            correlation: CorrelationId::parse(
                &JobId::new(now, SystemRandom.entropy()).to_string(),
            )?,
        };
        let put = Request::PutRecord(RecordChange::put(Scope::All, WEBHOOK_KEY, &key));
        let done = open_store::execute(store, put.audited(note)).await?;
        done.map(drop).map_err(|refusal| anyhow!("the key was refused: {refusal}"))
    })?;
    println!("every type has another secret from the next start of a server on");
    println!("`consign keys webhook TYPE` prints it for the receiver");
    Ok(ExitCode::SUCCESS)
}

/// Needs no further right: a user who can write to the store controls the installation anyway. The
/// audit log records it.
fn bootstrap(args: &StoreArgs) -> Result<ExitCode> {
    let address = present_store_of(args)?;
    let folder = address.folder();
    let key = with_store(&address, async |store| {
        let (clock, random) = (&SystemClock::new(), &SystemRandom);
        Ok(AdminKeys { store: &store, folder, clock, random }.make_another().await?)
    })?;
    println!("a key that may do everything is in {}", key.display());
    println!("revoke the one that was lost: `consign keys list`, then `consign keys revoke ID`");
    Ok(ExitCode::SUCCESS)
}

/// Runs `work` on a store that no server on SQLite uses.
fn with_store<T>(
    address: &StoreAddress,
    work: impl AsyncFnOnce(Arc<dyn Store>) -> Result<T>,
) -> Result<T> {
    let (clock, random) = (Arc::new(SystemClock::new()), Arc::new(SystemRandom));
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime
        .block_on(async { work(open_store::open_for_command(address, clock, random).await?).await })
}
