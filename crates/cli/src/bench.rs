//! Measures this machine.

use crate::{
    args::{BenchArgs, BenchStore},
    signals::{INTERRUPTED, Signals},
};
use anyhow::{Context, Result};
use bench::{RunFolder, Settings};
use std::{
    env,
    io::{stdin, stdout},
    process::{ExitCode, exit},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};
use tokio::runtime::Builder;

/// Succeeds whatever the numbers are: a benchmark is not a test.
pub(crate) fn run(args: &BenchArgs) -> Result<ExitCode> {
    if args.echo {
        bench::serve_echo(stdin().lock(), stdout()).context("the echo failed")?;
        return Ok(ExitCode::SUCCESS);
    }
    let settings = Settings {
        jobs: usize::try_from(args.jobs)?,
        deep: usize::try_from(args.deep)?,
        ended: usize::try_from(args.ended)?,
    };
    let place = match &args.store {
        Some(BenchStore::File(path)) => RunFolder::at(path),
        Some(BenchStore::Database(address)) => RunFolder::in_database(address),
        None => RunFolder::folder_in(&env::temp_dir()),
    };
    let place = Arc::new(place.context("nothing was measured")?);
    let interrupted = clear_when_interrupted(&place).context("nothing was measured")?;
    eprintln!("measuring in {}; all of it is removed afterwards", place.shown());
    let say = &mut |what: &str| eprintln!("{what}");
    let report = if args.http {
        let program = env::current_exe().context("nothing was measured")?;
        bench::run_http(settings, &place, &program, say)
    } else {
        bench::run(settings, &place, say)
    };
    while interrupted.load(Ordering::Acquire) {
        thread::park(); // the interrupt removed its files; the process is about to end
    }
    place.clear();
    let report = report.context("the measuring was given up")?;
    if args.json {
        println!("{:#}", report.json());
    } else {
        print!("{}", report.table());
    }
    Ok(ExitCode::SUCCESS)
}

/// Removes the files of the run when the user interrupts it, so that the disk space is free again.
fn clear_when_interrupted(place: &Arc<RunFolder>) -> Result<Arc<AtomicBool>> {
    let runtime = Builder::new_current_thread().enable_io().build()?;
    let inside = runtime.enter();
    let mut signals = Signals::new()?;
    drop(inside);
    let (place, interrupted) = (place.clone(), Arc::new(AtomicBool::new(false)));
    let told = interrupted.clone();
    thread::Builder::new().spawn(move || {
        runtime.block_on(signals.any());
        told.store(true, Ordering::Release);
        // The run goes on in another thread and may be creating a file right now.
        place.clear();
        thread::sleep(Duration::from_millis(20));
        place.clear();
        exit(INTERRUPTED.into())
    })?;
    Ok(interrupted)
}
