//! The door: what a request costs beside one that does nothing.
//!
//! The server is the real one, a process of its own, and so is the echo: a bare axum that answers with the body
//! it got. Both are asked by the same client, in turns, so that the client's own work is in both numbers.

pub(crate) mod attack;
mod client;
pub(crate) mod echo;
mod lives;
mod processes;
mod requests;
pub(crate) mod streams;

use crate::{
    Bench, Beside, Error, Machine, Place, ROUNDS, Report, Settings,
    house::PAYLOAD_BYTES,
    measure::Side::{Ours, Raw},
};
use client::Target;
use processes::{ServerProcess, start_echo};
use std::path::Path;

/// Connections that ask for one thing at a time.
const CONNECTIONS: usize = 64;

/// Measures the HTTP API of `program`, the binary `consign`. This blocks for some minutes.
pub fn run_http(
    settings: Settings,
    place: &Place,
    program: &Path,
    say: &mut dyn FnMut(&str),
) -> Result<Report, Error> {
    let mut bench = Bench::new(settings, place, say)?;
    let machine = Machine::of(place, &bench.clock)?;
    let measured = rounds(&mut bench, program);
    // Only what a process has used until it ended is known as ours.
    place.end_children(|_| true);
    measured?;
    Ok(bench.report(machine, Beside::Echo))
}

/// What one has to know to read the numbers.
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
        bench.say_round("enqueue and status", round);
        with_door(bench, program, |bench, door| requests(bench, &door.target, &echo, round))?;
        bench.say_round("whole lives over HTTP", round);
        with_door(bench, program, lives::measure)?;
        bench.say_round("status streams", round);
        with_door(bench, program, streams::measure)?;
    }
    Ok(())
}

/// Each part has a server of its own.
fn with_door<'a>(
    bench: &mut Bench<'a>,
    program: &Path,
    part: impl FnOnce(&mut Bench<'a>, &ServerProcess<'a>) -> Result<(), Error>,
) -> Result<(), Error> {
    let door = ServerProcess::start(bench, program)?;
    part(bench, &door)?;
    door.stop();
    Ok(())
}

fn requests(
    bench: &mut Bench<'_>,
    door: &Target,
    echo: &Target,
    round: usize,
) -> Result<(), Error> {
    // Who goes first changes, so that nobody always finds the machine as the other left it.
    let sides = [(Ours, door, requests::JOBS), (Raw, echo, requests::ECHO)];
    let turns = if round.is_multiple_of(2) { sides } else { [sides[1], sides[0]] };
    for (side, target, path) in turns {
        requests::enqueue(bench, target, side, path)?;
    }
    let urls = requests::some_jobs(bench, door)?;
    for (side, target, _) in turns {
        let paths = if side == Ours { urls.clone() } else { vec![requests::FIXED.into()] };
        requests::status(bench, target, side, paths)?;
    }
    Ok(())
}
