//! Say what is wrong with a store.

use crate::args::DoctorArgs;
use anyhow::{Result, bail};
use platform::SystemClock;
use std::{collections::BTreeSet, process::ExitCode};
use store::Clock;

pub(crate) fn run(args: &DoctorArgs) -> Result<ExitCode> {
    let path = &args.store.store.path;
    if !path.exists() {
        bail!("there is no store at {}; name another with --store sqlite:<path>", path.display());
    }
    let now = SystemClock::new().read().wall;
    let health = store::examine(path, now, &mut |what| eprintln!("looking at {what} …"))?;
    for finding in &health.findings {
        println!("{finding}");
    }
    let damaged = health.findings.iter().any(|finding| finding.damage);
    let (live, ended, keys) = (health.live_jobs, health.ended_jobs, health.keys);
    // What could not be read was not counted either.
    let counted = if damaged { "could be read" } else { "nothing is wrong" };
    println!("{}: live jobs {live}, ended {ended}, keys {keys}; {counted}", path.display());
    let cures: BTreeSet<&str> = health.findings.iter().map(|finding| finding.cure).collect();
    for cure in cures {
        println!("what to do: {cure}");
    }
    Ok(if damaged { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
