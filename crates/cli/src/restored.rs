//! Marks a database as restored from a backup: leases from before become invalid.

use crate::{
    args::{StoreAddress, StoreArgs},
    config_command::store_of,
    open_store,
};
use anyhow::{Result, anyhow, bail};
use engine::{AuditNote, CorrelationId, JobId, Scope};
use platform::{SystemClock, SystemRandom};
use std::{process::ExitCode, sync::Arc};
use store::{Clock, Postgres, PostgresAddress, PostgresOptions, RandomSource, Request};
use tokio::runtime::Builder;

pub(crate) fn run(args: &StoreArgs) -> Result<ExitCode> {
    let address = match store_of(args)? {
        StoreAddress::Postgres(address) => address,
        StoreAddress::Sqlite(_) => {
            bail!(
                "this is for PostgreSQL: `consign restore FILE` makes a file from a backup and does this, too"
            )
        }
    };
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(void_leases(&address))?;
    println!("{address}: no worker can settle anything with a lease from before");
    println!("jobs that ran when the backup was made are free again when their leases are over");
    Ok(ExitCode::SUCCESS)
}

/// What the audit log of a restored store says.
pub(crate) fn note_of_restore(
    who: &str,
    target: &str,
    backup: Option<String>,
) -> Result<AuditNote> {
    let (now, random) = (SystemClock::new().read().wall, SystemRandom);
    Ok(AuditNote {
        who: who.into(),
        name: None,
        scope: Scope::All,
        action: "store.restored",
        target: target.into(),
        detail: backup.map(|backup| format!("from {backup}").into()),
        correlation: CorrelationId::parse(&JobId::new(now, random.entropy()).to_string())?,
    })
}

async fn void_leases(address: &PostgresAddress) -> Result<()> {
    let (clock, random) = (Arc::new(SystemClock::new()), Arc::new(SystemRandom));
    let opened = Postgres::open(address, clock.clone(), random.clone(), PostgresOptions::default());
    let store = opened.await.map_err(open_store::with_remedy_now)?;
    store.raise_epoch().await?;
    let note = note_of_restore("consign restored", address.schema(), None)?;
    let done = open_store::execute(Arc::new(store), Request::Audit(note)).await?;
    done.map(drop).map_err(|refusal| anyhow!("the note for the audit log was refused: {refusal}"))
}
