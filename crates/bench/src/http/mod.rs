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
mod streams;

use crate::{
    Bench, Beside, Error, Group, Machine, Measure, PAYLOAD_BYTES, Place, ROUNDS, Report, Rounds,
    Settings, Unit, measure::goal_of, neighbours::Ticks,
};
use processes::{Door, Echo, Programs};
use std::path::Path;

/// Connections that ask for one thing at a time.
const CONNECTIONS: usize = 64;

/// Measures the door of `program`, which is the binary `consign`, saying what it is at. This blocks for some
/// minutes.
pub fn run_http(
    settings: Settings,
    place: &Place,
    program: &Path,
    say: &mut dyn FnMut(&str),
) -> Result<Report, Error> {
    let mut bench = Bench::new(settings, place, say)?;
    let programs = Programs { program, place };
    let (mut machine, before) = (Machine::of(place, &bench.clock)?, Ticks::now());
    let mut found = Found::default();
    let measured = found.rounds(&mut bench, &programs);
    // Only what a process has used until it ended is known as ours.
    place.end_children();
    measured?;
    machine.note_others(before);
    let streams = streams::count(&settings);
    Ok(Report::new(machine, settings, Beside::Echo, found.measures(streams)))
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

/// Ours and the echo, round by round.
#[derive(Default)]
struct Both {
    ours: Rounds,
    echo: Rounds,
}

#[derive(Default)]
struct Found {
    enqueue: Both,
    enqueue_p99: Both,
    status: Both,
    status_p99: Both,
    lives: Rounds,
    stream_end_p50: Rounds,
    stream_end_p99: Rounds,
    streams_memory: Rounds,
}

impl Found {
    fn rounds(&mut self, bench: &mut Bench<'_>, programs: &Programs<'_>) -> Result<(), Error> {
        let echo = Echo::start(bench, programs)?;
        for round in 0..ROUNDS {
            bench.say_round("enqueue and status", round);
            self.requests(bench, programs, &echo, round)?;
            bench.say_round("whole lives over HTTP", round);
            let door = Door::start(bench, programs)?;
            self.lives.push(lives::measure(bench, &door)?);
            door.stop();
            bench.say_round("status streams", round);
            let door = Door::start(bench, programs)?;
            let streams = streams::measure(bench, &door)?;
            self.stream_end_p50.push(streams.end_p50_ms);
            self.stream_end_p99.push(streams.end_p99_ms);
            self.streams_memory.push(streams.memory_mib);
            door.stop();
        }
        Ok(())
    }

    fn requests(
        &mut self,
        bench: &Bench<'_>,
        programs: &Programs<'_>,
        echo: &Echo,
        round: usize,
    ) -> Result<(), Error> {
        let door = Door::start(bench, programs)?;
        // Who goes first changes, so that nobody always finds the machine as the other left it.
        let turns = if round.is_multiple_of(2) { [true, false] } else { [false, true] };
        for ours in turns {
            let asked = match ours {
                true => requests::enqueue(bench, &door.target, requests::JOBS)?,
                false => requests::enqueue(bench, &echo.target, requests::ECHO)?,
            };
            asked.note(ours, &mut self.enqueue, &mut self.enqueue_p99);
        }
        let ids = requests::some_jobs(bench, &door.target)?;
        for ours in turns {
            let asked = match ours {
                true => requests::status(bench, &door.target, ids.clone())?,
                false => requests::status(bench, &echo.target, vec![requests::FIXED.into()])?,
            };
            asked.note(ours, &mut self.status, &mut self.status_p99);
        }
        door.stop();
        Ok(())
    }

    fn measures(self, streams: usize) -> Vec<Measure> {
        let of = |key, group, what: &str, unit, both: Both| Measure {
            key,
            group,
            what: what.into(),
            unit,
            ours: both.ours,
            raw: Some(both.echo),
            goal: goal_of(key),
        };
        let alone = |key, group, what: String, unit, ours| Measure {
            key,
            group,
            what,
            unit,
            ours,
            raw: None,
            goal: goal_of(key),
        };
        let (speed, time) = (Group::Throughput, Group::Latency);
        let (requests, ms) = (Unit::RequestsPerSecond, Unit::Milliseconds);
        let ends = |percent: &str| format!("end of {streams} streams, {percent}");
        vec![
            of("http_enqueue", speed, "enqueue, 64 connections", requests, self.enqueue),
            of("http_status", speed, "status, 64 connections", requests, self.status),
            alone("http_lives", speed, "whole lives".into(), Unit::JobsPerSecond, self.lives),
            of("http_enqueue_p99", time, "enqueue p99", ms, self.enqueue_p99),
            of("http_status_p99", time, "status p99", ms, self.status_p99),
            alone("http_stream_end_p50", time, ends("p50"), ms, self.stream_end_p50),
            alone("http_stream_end_p99", time, ends("p99"), ms, self.stream_end_p99),
            alone(
                "http_streams_memory",
                Group::Size,
                format!("memory for {streams} streams"),
                Unit::Mebibytes,
                self.streams_memory,
            ),
        ]
    }
}
