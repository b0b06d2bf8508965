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
    let run_folder = match &args.store {
        Some(BenchStore::File(path)) => RunFolder::at(path),
        Some(BenchStore::Database(address)) => RunFolder::in_database(address),
        None => RunFolder::folder_in(&env::temp_dir()),
    };
    let run_folder = Arc::new(run_folder.context("nothing was measured")?);
    let interrupted = clear_when_interrupted(&run_folder).context("nothing was measured")?;
    eprintln!("measuring in {}; all of it is removed afterwards", run_folder.shown());
    let print_step = &mut |what: &str| eprintln!("{what}");
    let report = if args.http {
        let program = env::current_exe().context("nothing was measured")?;
        bench::run_http(settings, &run_folder, &program, print_step)
    } else {
        bench::run(settings, &run_folder, print_step)
    };
    while interrupted.load(Ordering::Acquire) {
        thread::park(); // the interrupt removed its files; the process is about to end
    }
    run_folder.clear();
    let report = report.context("the measurement was not finished")?;
    if args.json {
        println!("{:#}", report.json());
    } else {
        print!("{}", report.table());
    }
    Ok(ExitCode::SUCCESS)
}

/// Removes the files of the run when the user interrupts it, so that the disk space is free again.
fn clear_when_interrupted(run_folder: &Arc<RunFolder>) -> Result<Arc<AtomicBool>> {
    let runtime = Builder::new_current_thread().enable_io().build()?;
    let runtime_guard = runtime.enter();
    let mut signals = Signals::new()?;
    drop(runtime_guard);
    let (run_folder, interrupted) = (run_folder.clone(), Arc::new(AtomicBool::new(false)));
    let interrupted_flag = interrupted.clone();
    thread::Builder::new().spawn(move || {
        runtime.block_on(signals.any());
        interrupted_flag.store(true, Ordering::Release);
        // The run goes on in another thread and may be creating a file right now.
        run_folder.clear();
        thread::sleep(Duration::from_millis(20));
        run_folder.clear();
        exit(INTERRUPTED.into())
    })?;
    Ok(interrupted)
}
