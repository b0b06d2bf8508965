//! The HTTP API: what a request costs beside one that does nothing.
//!
//! The server is the real one, in a process of its own. So is the echo: a bare axum that answers
//! with the request's body. The same client asks both in turns, so that its own work is in both
//! numbers.

pub(crate) mod attack;
mod client;
pub(crate) mod echo;
mod lives;
mod processes;
mod requests;
pub(crate) mod streams;

use crate::{
    Bench, BenchReport, Beside, Error, Machine, ROUNDS, RunFolder, Settings,
    bench_node::PAYLOAD_BYTES,
    measure::Side::{Ours, RawStore},
};
use client::BenchTarget;
use processes::{ServerProcess, start_echo};
use std::path::Path;

/// Connections with one request under way each.
const CONNECTIONS: usize = 64;

/// Measures the HTTP API of `program`, the binary `consign`. Blocking, for some minutes.
pub fn run_http(
    settings: Settings,
    run_folder: &RunFolder,
    program: &Path,
    progress: &mut dyn FnMut(&str),
) -> Result<BenchReport, Error> {
    let mut bench = Bench::new(settings, run_folder, progress)?;
    let machine = Machine::of(run_folder, &bench.clock)?;
    let measured = rounds(&mut bench, program);
    // Processor time counts as ours only for child processes that have ended.
    run_folder.end_children(|_| true);
    measured?;
    Ok(bench.report(machine, Beside::Echo))
}

pub(crate) fn notes() -> Vec<String> {
    vec![
        format!(
            "echo: a bare axum, answering the same requests of the same {CONNECTIONS} connections"
        ),
        "server and echo are processes of their own; client and servers share the processors"
            .into(),
        format!(
            "enqueue: one job of {PAYLOAD_BYTES} bytes in each request, on the disk when answered"
        ),
        format!(
            "whole lives: {} connections, each enqueues {n}, claims {n}, settles {n} in three requests",
            lives::CONNECTIONS,
            n = lives::BATCH
        ),
        "streams: from sending the settle to reading the end; memory: of the server's process"
            .into(),
    ]
}

fn rounds(bench: &mut Bench<'_>, program: &Path) -> Result<(), Error> {
    let echo = start_echo(bench, program)?;
    for round in 0..ROUNDS {
        bench.report_round("enqueue and status", round);
        with_server(bench, program, |bench, server| requests(bench, &server.target, &echo, round))?;
        bench.report_round("whole lives over HTTP", round);
        with_server(bench, program, lives::measure)?;
        bench.report_round("status streams", round);
        with_server(bench, program, streams::measure)?;
    }
    Ok(())
}

/// Runs a part with a server of its own.
fn with_server<'a>(
    bench: &mut Bench<'a>,
    program: &Path,
    part: impl FnOnce(&mut Bench<'a>, &ServerProcess<'a>) -> Result<(), Error>,
) -> Result<(), Error> {
    let server = ServerProcess::start(bench, program, "")?;
    part(bench, &server)?;
    server.stop();
    Ok(())
}

fn requests(
    bench: &mut Bench<'_>,
    server: &BenchTarget,
    echo: &BenchTarget,
    round: usize,
) -> Result<(), Error> {
    // The order alternates, so that neither side always finds the machine as the other left it.
    let sides = [(Ours, server, requests::JOBS), (RawStore, echo, requests::ECHO)];
    let turns = if round.is_multiple_of(2) { sides } else { [sides[1], sides[0]] };
    for (side, target, path) in turns {
        requests::enqueue(bench, target, side, path)?;
    }
    let urls = requests::submit_jobs_for_status(bench, server)?;
    for (side, target, _) in turns {
        let paths = if side == Ours { urls.clone() } else { vec![requests::FIXED.into()] };
        requests::status(bench, target, side, paths)?;
    }
    Ok(())
}
