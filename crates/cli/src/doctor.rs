//! Say what is wrong with a store.

use crate::args::DoctorArgs;
use anyhow::{Result, bail};
use platform::SystemClock;
use std::process::ExitCode;
use store::Clock;

pub(crate) fn run(args: &DoctorArgs) -> Result<ExitCode> {
    let path = &args.store.store.path;
    if !path.exists() {
        bail!("there is no store at {}; name another with --store sqlite:<path>", path.display());
    }
    let now = SystemClock::new().read().wall;
    let health = store::examine(path, now, &mut |what| eprintln!("looking at {what} …"))?;
    println!(
        "{}: {} live jobs, {} ended, {} keys",
        path.display(),
        health.live_jobs,
        health.ended_jobs,
        health.keys
    );
    for finding in &health.findings {
        println!("{finding}");
    }
    if health.findings.is_empty() {
        println!("nothing is wrong");
    }
    let damaged = health.findings.iter().any(|finding| finding.damage);
    Ok(if damaged { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
