//! The schema of the store: which it is, and what brings it up to date.

use crate::{
    args::{MigrateArgs, MigrateCommand},
    config::present_store_of,
};
use anyhow::{Context, Result};
use std::process::ExitCode;
use store::{Schema, migrate, schema};

pub(crate) fn run(command: &MigrateCommand) -> Result<ExitCode> {
    match command {
        MigrateCommand::Status(args) => status(args),
        MigrateCommand::Plan(args) => plan(args),
        MigrateCommand::Up(args) => up(args),
    }
}

fn status(args: &MigrateArgs) -> Result<ExitCode> {
    let path = present_store_of(&args.store)?;
    let Schema { found, known, missing } = schema(&path)?;
    println!("{} has schema {found}; this version writes {known}", path.display());
    for migration in &missing {
        println!("  missing: {:04} {}", migration.number, migration.name);
    }
    println!(
        "{}",
        match missing.len() {
            0 => "it is up to date",
            _ =>
                "the next `consign serve` runs what is missing, and so does `consign migrate up`; back up first",
        }
    );
    Ok(ExitCode::SUCCESS)
}

fn plan(args: &MigrateArgs) -> Result<ExitCode> {
    let path = present_store_of(&args.store)?;
    let missing = schema(&path)?.missing;
    if missing.is_empty() {
        eprintln!("{} is up to date; nothing would be run", path.display());
    }
    for migration in missing {
        println!("-- {:04} {}\n{}", migration.number, migration.name, migration.sql.trim_end());
    }
    Ok(ExitCode::SUCCESS)
}

fn up(args: &MigrateArgs) -> Result<ExitCode> {
    let path = present_store_of(&args.store)?;
    let holder = format!("process {}, migrating", std::process::id());
    let Schema { found, known, missing } =
        migrate(&path, &holder).context("the store stays as it is")?;
    match missing.len() {
        0 => println!("{} is up to date: schema {known}", path.display()),
        _ => println!("{} was brought from schema {found} to {known}", path.display()),
    }
    Ok(ExitCode::SUCCESS)
}
