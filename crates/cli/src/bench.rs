//! Measure this machine.

use crate::args::BenchArgs;
use anyhow::{Context, Result};
use bench::{Place, Settings};
use std::{env, process::ExitCode};

/// Whatever the numbers are, it went well: a benchmark is no test.
pub(crate) fn run(args: &BenchArgs) -> Result<ExitCode> {
    let settings =
        Settings { jobs: usize::try_from(args.jobs)?, deep: usize::try_from(args.deep)? };
    let place = match &args.store {
        Some(address) => Place::at(&address.path),
        None => Place::folder_in(&env::temp_dir()),
    };
    let place = place.context("nothing was measured")?;
    eprintln!("measuring in {}, which is removed afterwards", place.shown().display());
    let report = bench::run(settings, &place, &mut |what| eprintln!("{what}"));
    let report = report.context("the measuring was given up")?;
    if args.json {
        println!("{:#}", report.json());
    } else {
        print!("{}", report.table());
    }
    Ok(ExitCode::SUCCESS)
}
