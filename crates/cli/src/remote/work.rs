//! Works on jobs of a server: runs a program for each.

use super::{Show, connect, failure};
use crate::{
    args::WorkArgs,
    log::{self, LogFormat},
    ready_made::registration::{report, run_exec},
    settings::LogSettings,
    signals::Signals,
};
use anyhow::Result;
use client::{Client, ClientError};
use consign::{Context, Registration, Runner, RunnerHandle, StopReason, on};
use outbound::{Exec, HandlerEnding, HandlerOutcome};
use platform::{SystemClock, SystemRandom};
use std::{process::ExitCode, sync::Arc, time::Duration};
use store::{Clock, RandomSource};
use tokio::runtime::Builder;
use tracing::{info, warn};
use wire::{HeartbeatRequest, Json};

/// How long a claim waits with `--until-empty`, which ends when nothing is due.
const EMPTY_WAIT: Duration = Duration::from_secs(1);

pub(crate) fn run(args: &WorkArgs) -> Result<ExitCode> {
    let show = Show::to_people(&args.terminal);
    let settings = LogSettings { format: "auto".into(), level: "info".into() };
    let log = log::start(&settings, LogFormat::of(&settings, &args.terminal), None)?;
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let done = connect(&args.connection)
        .and_then(|client| runtime.block_on(async { work(args, &client).await }));
    drop(runtime);
    log.finish();
    Ok(done.unwrap_or_else(|error| failure::report(&error, &show)))
}

async fn work(args: &WorkArgs, client: &Client) -> Result<ExitCode> {
    let mut signals = Signals::new()?;
    let name = args.name.clone();
    let name = name.unwrap_or_else(|| format!("work-{:08x}", SystemRandom.entropy().0 >> 96));
    check_key(client, &format!("{name}/{}", args.job_type)).await?;
    let mut runner = Runner::remote(client).name(name).with(registration(args));
    if args.until_empty {
        runner = runner.wait(EMPTY_WAIT);
    }
    let runner = runner.start().await?;
    tokio::select! {
        () = signals.any() => {}
        () = runner.wait_idle(), if args.until_empty => {}
    }
    Ok(stop(runner, args.grace, &mut signals).await)
}

/// Checks the key while the user is still looking. A server that does not answer is waited for
/// later.
async fn check_key(client: &Client, worker: &str) -> Result<(), ClientError> {
    let alive = HeartbeatRequest { worker_id: worker.to_owned(), leases: Vec::new() };
    match client.heartbeat(&alive).await {
        Err(error) if !error.is_worth_repeating() => Err(error),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Lets programs end, or, at a second signal, gives all jobs back at once.
async fn stop(runner: RunnerHandle, grace: Duration, signals: &mut Signals) -> ExitCode {
    let summary = tokio::select! {
        summary = runner.stop(grace) => summary,
        () = signals.any() => return ExitCode::from(crate::signals::INTERRUPTED),
    };
    if summary.unreported > 0 {
        warn!(
            unreported = summary.unreported,
            "the server did not receive the outcome of these jobs: they run again"
        );
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn registration(args: &WorkArgs) -> Registration {
    let exec = Exec::new(args.exec.iter().cloned(), std::env::vars_os());
    let exec = Arc::new(exec.with_final_codes(&args.final_codes));
    let registration = on(&args.job_type, move |payload: Json, context: Context| {
        let exec = exec.clone();
        async move {
            let line = JobLogLine {
                context: context.clone(),
                clock: SystemClock::new(),
                is_logged: false,
            };
            let handler_outcome = run_exec(&exec, &context, payload).await;
            line.end(&handler_outcome);
            report(&context, handler_outcome).await
        }
    });
    let registration = registration.slots(args.slots.into());
    match args.lease {
        Some(lease) => registration.lease(lease),
        None => registration,
    }
}

/// The one log line about a job, also when its attempt is dropped.
struct JobLogLine {
    context: Context,
    /// Measures from the start of the job.
    clock: SystemClock,
    is_logged: bool,
}

impl JobLogLine {
    fn end(mut self, handler_outcome: &HandlerOutcome) {
        let (outcome, failure) = match &handler_outcome.ending {
            HandlerEnding::Completed { .. } => ("completed", None),
            HandlerEnding::Retry { failure, .. } => ("failed", Some(failure)),
            HandlerEnding::ForGood(failure) => ("failed for good", Some(failure)),
            HandlerEnding::Stopped => (self.stop_outcome(), None),
            HandlerEnding::NotStarted(failure) => ("given back", Some(failure)),
        };
        let message =
            failure.map_or(handler_outcome.message.as_deref(), |failure| Some(&failure.message));
        self.log_line(outcome, failure.map(|failure| &*failure.code), message);
    }

    fn stop_outcome(&self) -> &'static str {
        match self.context.stop_reason() {
            Some(StopReason::Cancelled) => "cancelled",
            Some(StopReason::LeaseLost) => "lease lost",
            Some(StopReason::TimedOut) => "timed out",
            Some(StopReason::Stopping) | None => "given back",
        }
    }

    fn log_line(&mut self, outcome: &str, code: Option<&str>, message: Option<&str>) {
        self.is_logged = true;
        let took = format!("{:.1}s", self.clock.read().monotonic.as_secs_f64());
        let job = self.context.job();
        info!(job.id = %job.id, job_type = %job.job_type, outcome, took, code, detail = message, "job done");
    }
}

impl Drop for JobLogLine {
    fn drop(&mut self) {
        if !self.is_logged {
            self.log_line(self.stop_outcome(), None, None);
        }
    }
}
