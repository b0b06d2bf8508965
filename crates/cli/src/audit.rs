//! The audit log: read from a server, or verified in the store itself.

use crate::{
    args::{AuditArgs, AuditCommand, AuditVerifyArgs, StoreAddress},
    config_command::present_store_of,
    open_store, remote,
};
use anyhow::{Context, Result};
use engine::{AuditEntry, AuditHash, counted};
use std::process::ExitCode;
use store::{AuditChain, verify_audit, verify_postgres_audit};

pub(crate) fn run(args: &AuditArgs) -> Result<ExitCode> {
    match &args.command {
        None => remote::audit::run(&args.list),
        Some(AuditCommand::List(args)) => remote::audit::run(args),
        Some(AuditCommand::Verify(args)) => verify(args),
    }
}

fn verify(args: &AuditVerifyArgs) -> Result<ExitCode> {
    let address = present_store_of(&args.store)?;
    let expected_head = args.head.as_deref().map(parse).transpose()?;
    let mut head_number = (expected_head == Some(AuditHash::FIRST)).then_some(0);
    let mut compare = |entry: &AuditEntry| {
        if Some(entry.hash) == expected_head {
            head_number = Some(entry.number);
        }
    };
    let chain = match &address {
        StoreAddress::Sqlite(path) => verify_audit(path, &mut compare)?,
        StoreAddress::Postgres(address) => {
            open_store::block_on(verify_postgres_audit(address, &mut compare))?
        }
    };
    let (entries, head) = match chain {
        AuditChain::Whole { entries, head } => (entries, head),
        AuditChain::Broken { number } => {
            println!("entry {number} is missing or not as it was written; all before it are");
            return Ok(ExitCode::FAILURE);
        }
    };
    let entries = counted(entries, "entry", "entries");
    println!("{}: {entries}, each as it was written", address.shown());
    println!("head {head}");
    match (expected_head, head_number) {
        (None, _) => {}
        (Some(_), Some(number)) => {
            println!("the hash you know is that of entry {number}: nothing up to there was changed")
        }
        (Some(_), None) => {
            println!(
                "the hash you know is not in it: entries at the end were cut off, or it is another log"
            );
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn parse(text: &str) -> Result<AuditHash> {
    AuditHash::parse(text)
        .context("--head: must be the hash that an earlier check printed: 64 hex digits")
}
