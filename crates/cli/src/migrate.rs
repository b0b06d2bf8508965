//! The schema of the store: its version, and the migrations that it lacks.

use crate::{
    args::{MigrateCommand, StoreAddress},
    config_command::present_store_of,
    open_store::block_on,
};
use anyhow::{Context, Result};
use std::process::ExitCode;
use store::{Schema, migrate, migrate_postgres, postgres_schema, schema};

pub(crate) fn run(command: &MigrateCommand) -> Result<ExitCode> {
    let (print, args): (fn(&StoreAddress) -> Result<()>, _) = match command {
        MigrateCommand::Status(args) => (status, args),
        MigrateCommand::Plan(args) => (plan, args),
        MigrateCommand::Up(args) => (up, args),
    };
    print(&present_store_of(args)?)?;
    Ok(ExitCode::SUCCESS)
}

fn status(address: &StoreAddress) -> Result<()> {
    let Schema { version: found, supported_version: known, missing } = read_schema(address)?;
    println!("{} has schema {found}; this version writes {known}", address.shown());
    for migration in &missing {
        println!("  missing: {:04} {}", migration.number, migration.name);
    }
    match missing.len() {
        0 => println!("it is up to date"),
        _ => println!(
            "the next `consign serve` runs what is missing, and so does `consign migrate up`; back up first"
        ),
    }
    Ok(())
}

fn plan(address: &StoreAddress) -> Result<()> {
    let missing = read_schema(address)?.missing;
    if missing.is_empty() {
        eprintln!("{} is up to date; nothing would be run", address.shown());
    }
    for migration in missing {
        println!("-- {:04} {}\n{}", migration.number, migration.name, migration.sql.trim_end());
    }
    Ok(())
}

fn up(address: &StoreAddress) -> Result<()> {
    let Schema { version: found, supported_version: known, missing } =
        migrate_up(address).context("the store stays as it is")?;
    match missing.len() {
        0 => println!("{} is up to date: schema {known}", address.shown()),
        _ => println!("{} was brought from schema {found} to {known}", address.shown()),
    }
    Ok(())
}

fn read_schema(address: &StoreAddress) -> Result<Schema> {
    match address {
        StoreAddress::Sqlite(path) => Ok(schema(path)?),
        StoreAddress::Postgres(address) => block_on(postgres_schema(address)),
    }
}

fn migrate_up(address: &StoreAddress) -> Result<Schema> {
    match address {
        StoreAddress::Sqlite(path) => {
            let holder = format!("process {}, migrating", std::process::id());
            Ok(migrate(path, &holder)?)
        }
        StoreAddress::Postgres(address) => block_on(migrate_postgres(address)),
    }
}
